"""The parts of the demo on Kubernetes that need no cluster; `make demo-kubernetes` runs the whole."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.demo_kubernetes.kubectl import Kubectl, KubectlError
from tools.demo_kubernetes.place import Place
from tools.demo_kubernetes.story import Told, name_prometheus, quick_agents, tell_news

ROOT = Path(__file__).resolve().parents[2]


def place(pid: int) -> Place:
    return Place(
        pid=pid,
        kubeconfig="/k",
        binaries="/b",
        url="https://127.0.0.1:1",
        prometheus="http://127.0.0.1:2",
        logs="/l",
    )


@dataclass
class Recorded:
    """A kubectl that answers from a table and keeps what it was asked."""

    answers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, *arguments: str, timeout_seconds: float = 1.0) -> str:
        self.asked.append(arguments)
        return self.answers.get(" ".join(arguments[:2]), "")

    def items(self, kind: str, *arguments: str) -> list[dict[str, Any]]:
        return self.events


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


def test_an_age_that_moves_is_no_news_and_a_phase_is() -> None:
    said: list[str] = []
    kubectl, told = Recorded({"get kvp,kvx": "NAME PHASE AGE\nquick Idle 9s"}), Told()
    tell_news(said.append, kubectl, told, 1.0)
    kubectl.answers["get kvp,kvx"] = "NAME  PHASE  AGE\nquick  Idle  2m10s"
    tell_news(said.append, kubectl, told, 2.0)
    assert len(said) == 1
    kubectl.answers["get kvp,kvx"] = "NAME PHASE AGE\nquick RunIn 2m11s"
    tell_news(said.append, kubectl, told, 3.0)
    assert len(said) == 2


def test_events_of_ours_are_told_once_and_of_others_not_at_all() -> None:
    ours = {
        "type": "Normal",
        "reason": "ExperimentStarted",
        "message": "m",
        "involvedObject": {"apiVersion": "kvtune.dev/v1alpha1", "name": "quick"},
    }
    other = {**ours, "involvedObject": {"apiVersion": "v1", "name": "pod"}}
    said: list[str] = []
    kubectl, told = Recorded(events=[ours, other]), Told()

    tell_news(said.append, kubectl, told, 1.0)
    tell_news(said.append, kubectl, told, 2.0)

    assert said == ["   1 s  event  Normal ExperimentStarted quick: m"]


def test_what_kubectl_says_is_the_error(tmp_path: Path) -> None:
    program = tmp_path / "kubectl"
    program.write_text("#!/bin/sh\necho 'Error: no such thing' >&2\nexit 1\n")
    program.chmod(0o755)

    with pytest.raises(KubectlError, match="kubectl get kvp: Error: no such thing"):
        Kubectl(tmp_path, tmp_path / "config")("get", "kvp")
