"""The parts of the demo on Kubernetes that need no cluster; `make demo-kubernetes` runs the whole."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.tools.recorded_kubectl import Recorded
from tools.controlplane.clock import until
from tools.demo_kubernetes.__main__ import TAKEN, main
from tools.demo_kubernetes.hold import hold
from tools.demo_kubernetes.kubectl import Kubectl, KubectlError
from tools.demo_kubernetes.place import Place, State, Taken, found_place, sole_holder
from tools.demo_kubernetes.story import (
    Failed,
    Interrupted,
    name_prometheus,
    quick_agents,
    refuse_second,
    started,
)

ROOT = Path(__file__).resolve().parents[2]

HOLDER = """
import os, sys, time
from pathlib import Path
from tools.demo_kubernetes.place import Place, State
Place(pid=os.getpid(), state=State(sys.argv[2])).write(Path(sys.argv[1]))
time.sleep(60)
"""
"""Stands for a holder: a process with `tools.demo_kubernetes` in its command line."""


def place(pid: int) -> Place:
    return Place(
        pid=pid,
        state=State.UP,
        kubeconfig="/k",
        binaries="/b",
        url="https://127.0.0.1:1",
        prometheus="http://127.0.0.1:2",
        logs="/l",
    )


def test_where_no_cluster_was_started_there_is_no_place(tmp_path: Path) -> None:
    assert Place.read(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}'])
def test_a_damaged_file_is_no_place(tmp_path: Path, text: str) -> None:
    (tmp_path / "place.json").write_text(text)

    assert Place.read(tmp_path) is None


def test_a_process_that_is_not_the_holder_is_never_ended_for_it(tmp_path: Path) -> None:
    """Process ids are used again: this test's own is not a holder's."""
    place(os.getpid()).write(tmp_path)

    assert Place.read(tmp_path) is None


def test_agents_and_traffic_get_the_quick_policys_start_beside_their_other_options() -> None:
    documents = list(yaml.safe_load_all((ROOT / "examples" / "agent.yaml").read_text()))
    agents = next(item for item in documents if item["kind"] == "DaemonSet")
    traffic = next(
        item
        for item in yaml.safe_load_all((ROOT / "examples" / "traffic.yaml").read_text())
        if item["kind"] == "Deployment"
    )
    kubectl = Recorded(
        {
            "get daemonset/kvtune-agent": json.dumps(agents),
            "get deployment/kvtune-traffic": json.dumps(traffic),
        }
    )

    quick_agents(kubectl)

    patches = [json.loads(asked[-1]) for asked in kubectl.asked if asked[0] == "patch"]
    of_agents, of_traffic = (p["spec"]["template"]["spec"]["containers"][0]["args"] for p in patches)
    quick = yaml.safe_load((ROOT / "examples" / "quick.yaml").read_text())["spec"]["knobs"]
    assert f"--cache-ttl={quick['cacheTTL']['start']}" in of_agents
    assert f"--eviction-ratio={quick['evictionRatio']['start']}" in of_agents
    assert f"--host-memory={quick['tiers']['hostMemory']['start']}" in of_agents
    assert "--name=$(POD_NAME)" in of_agents
    assert sum(arg.startswith("--cache-ttl") for arg in of_agents) == 1
    assert "--haste=10" in of_traffic


def test_the_operators_settings_keep_what_they_had_and_name_this_prometheus() -> None:
    held = {"data": {"config.yaml": "agents: {insecure: true}\n"}}
    kubectl = Recorded({"get configmap/kvtune-operator": json.dumps(held)})

    name_prometheus(kubectl, place(1))

    text = json.loads(kubectl.asked[-1][-1])["data"]["config.yaml"]
    assert yaml.safe_load(text) == {
        "agents": {"insecure": True},
        "prometheus": {"address": "http://127.0.0.1:2", "scrapeInterval": "1s", "scrapeDelay": "2s"},
    }


def holder(folder: Path, state: State) -> list[str]:
    return [sys.executable, "-c", HOLDER, str(folder), str(state)]


def test_a_holder_that_is_up_is_the_place_and_is_refused_to_a_second_start(tmp_path: Path) -> None:
    found, process = started(holder(tmp_path, State.UP), tmp_path, 30.0)

    try:
        with pytest.raises(Failed, match=f"is up already .process {found.pid}.: `make down` ends it"):
            refuse_second(tmp_path)
    finally:
        process.terminate()
        process.wait(30.0)
    assert Place.read(tmp_path) is None


def test_ctrl_c_during_the_start_ends_the_holder_and_says_so(tmp_path: Path) -> None:
    refusals: list[str] = []

    def interrupted(_: Callable[[], bool], within_seconds: float) -> bool:
        assert until(lambda: Place.read(tmp_path), within_seconds)
        with pytest.raises(Failed) as refused:
            refuse_second(tmp_path)
        refusals.append(str(refused.value))
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="the cluster was starting, and was ended"):
        started(holder(tmp_path, State.STARTING), tmp_path, 30.0, watch=interrupted)

    assert "is starting already" in refusals[0]
    assert Place.read(tmp_path) is None


def test_a_holder_that_ends_during_the_start_gives_its_last_words_only(tmp_path: Path) -> None:
    (tmp_path / "hold.log").write_text("of an earlier one\n")
    command = [sys.executable, "-c", "raise SystemExit('no etcd')"]

    with pytest.raises(Failed, match=r"did not start:\nno etcd$"):
        started(command, tmp_path, 30.0)


def test_a_holder_that_is_ended_by_down_during_the_start_is_no_riddle(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="was ended during its start"):
        started([sys.executable, "-c", ""], tmp_path, 30.0)


def test_a_second_holder_ends_at_once_and_leaves_the_first_ones_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plane").mkdir()

    with sole_holder(tmp_path):
        place(os.getpid()).write(tmp_path)
        with pytest.raises(Taken, match="another cluster of the demo"):
            asyncio.run(hold(tmp_path))
        assert main(["hold", "--folder", str(tmp_path)]) == TAKEN
        assert (tmp_path / "plane").is_dir()
        assert (tmp_path / "place.json").exists()

    assert "`make down` ends it" in capsys.readouterr().err
    assert not (tmp_path / "place.json").exists()


def test_where_nobody_holds_the_lock_nothing_is_waited_for(tmp_path: Path) -> None:
    with sole_holder(tmp_path):
        pass

    assert found_place(tmp_path) is None


def test_every_script_that_the_makefile_calls_exists() -> None:
    scripts = set(re.findall(r"\brequirements/\S+\.sh", (ROOT / "Makefile").read_text()))

    assert scripts
    assert all((ROOT / script).is_file() for script in scripts)


def test_what_kubectl_says_is_the_error(tmp_path: Path) -> None:
    program = tmp_path / "kubectl"
    program.write_text("#!/bin/sh\necho 'Error: no such thing' >&2\nexit 1\n")
    program.chmod(0o755)

    with pytest.raises(KubectlError, match="kubectl get kvp: Error: no such thing"):
        Kubectl(tmp_path, tmp_path / "config")("get", "kvp")
