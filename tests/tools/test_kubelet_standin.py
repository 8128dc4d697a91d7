"""The kubelet's stand-in without a cluster: images, expansion, addresses, the status it tells."""

from pathlib import Path

import pytest

from tools.kubelet_standin.addresses import free_address
from tools.kubelet_standin.api import Object, access_of
from tools.kubelet_standin.environment import NotYet, expand, field_of
from tools.kubelet_standin.images import NoImage, command_of, instructions
from tools.kubelet_standin.status import pod_status

EXPANSIONS = {
    "a known name": ("--name=$(POD)", "--name=p"),
    "two": ("$(POD)/$(POD)", "p/p"),
    "an unknown name stays": ("$(NONE)", "$(NONE)"),
    "escaped": ("$$(POD)", "$(POD)"),
    "a shell's variable is none of ours": ("$POD", "$POD"),
}


@pytest.mark.parametrize(("text", "expanded"), EXPANSIONS.values(), ids=EXPANSIONS.keys())
def test_references_are_expanded_as_the_kubelet_does(text: str, expanded: str) -> None:
    assert expand(text, {"POD": "p"}) == expanded


def test_a_containerfile_is_read_with_its_continued_lines_and_without_comments(tmp_path: Path) -> None:
    file = tmp_path / "Containerfile"
    file.write_text('# no\nFROM a:1\nrun one \\\n    two\n\nENTRYPOINT ["x", "y z"]\n')

    assert instructions(file) == [("FROM", "a:1"), ("RUN", "one two"), ("ENTRYPOINT", '["x", "y z"]')]


def test_an_image_of_kvtune_runs_the_entrypoint_of_its_containerfile() -> None:
    for image in ("kvtune-agent", "registry.example:5000/x/kvtune-agent:0.1.0", "kvtune-agent@sha256:00"):
        assert command_of(image, [], ["--help"]) == ["python", "-m", "kvtune_agent", "--help"]
    assert command_of("anything", ["sleep"], ["1"]) == ["sleep", "1"]


def test_an_image_that_nothing_is_known_of_is_named() -> None:
    with pytest.raises(NoImage, match=r"'nginx:1'.*kvtune-agent, kvtune-operator"):
        command_of("nginx:1", [], [])


def test_no_two_pods_of_a_machine_have_one_address_while_both_are_there() -> None:
    first, second = free_address(1), free_address(1)

    assert first.address != second.address
    again = first.address
    first.close()
    with free_address(1) as third:
        assert third == again
    second.close()


def test_fields_of_a_pod_that_are_not_known_are_named() -> None:
    pod = {"metadata": {"name": "n", "labels": {"a/b": "c"}}, "spec": {}}

    assert field_of(pod, "metadata.labels['a/b']", "127.0.0.9") == "c"
    assert field_of(pod, "status.podIP", "127.0.0.9") == "127.0.0.9"
    with pytest.raises(NotYet, match=r"'spec\.hostname' is not supported"):
        field_of(pod, "spec.hostname", "127.0.0.9")


def test_a_kubeconfig_without_its_context_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("current-context: here\ncontexts: []\n")

    with pytest.raises(ValueError, match="contexts has no 'here'"):
        access_of(file)


def container(state: Object, *, ready: bool = False, restarts: int = 0) -> Object:
    return {"name": "c", "state": state, "ready": ready, "restartCount": restarts}


RUNNING: Object = {"running": {"startedAt": ""}}
WAITING: Object = {"waiting": {"reason": "ContainerCreating"}}


def ended(code: int) -> Object:
    return {"terminated": {"exitCode": code}}


PHASES = {
    "waits": ("Always", [container(WAITING)], "Pending"),
    "runs": ("Always", [container(RUNNING, ready=True)], "Running"),
    "waits to be started again": ("Always", [container(WAITING, restarts=1)], "Running"),
    "ended well": ("Never", [container(ended(0))], "Succeeded"),
    "ended badly": ("Never", [container(ended(3))], "Failed"),
    "ended badly, to be tried again": ("OnFailure", [container(ended(3))], "Running"),
    "one of two ended": ("Never", [container(ended(0)), container(RUNNING)], "Running"),
}


@pytest.mark.parametrize(("policy", "containers", "phase"), PHASES.values(), ids=PHASES.keys())
def test_the_phase_follows_from_the_containers(policy: str, containers: list[Object], phase: str) -> None:
    pod: Object = {"metadata": {}, "spec": {"restartPolicy": policy}}

    status = pod_status(pod, [], containers, address="127.0.0.9", began="", since={})

    assert status["phase"] == phase
    [ready] = [c["status"] for c in status["conditions"] if c["type"] == "Ready"]
    assert (ready == "True") is all(c["ready"] for c in containers)
