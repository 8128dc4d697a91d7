"""`kvtune traffic`: which pods are agents, and what it says of a wrong command line or cluster."""

from pathlib import Path
from typing import Any

import pytest

from kvtune_cli.agent_pods import address_of
from kvtune_cli.exits import ExitCode
from kvtune_cli.main import run
from kvtune_cli.traffic import summary
from kvtune_lab.live import LiveTally
from kvtune_lab.posting import AgentTally

Capture = pytest.CaptureFixture[str]


def pod(*, ip: str = "127.0.0.9", ready: str = "True", port: str = "kvtune", **meta: Any) -> dict[str, Any]:
    ports = [{"name": "other", "containerPort": 1}, {"name": port, "containerPort": 9000}]
    return {
        "metadata": {"name": "a", **meta},
        "spec": {"containers": [{"name": "sidecar"}, {"name": "agent", "ports": ports}]},
        "status": {"podIP": ip, "conditions": [{"type": "Ready", "status": ready}]},
    }


def test_an_agent_is_a_ready_pod_with_a_port_named_kvtune() -> None:
    assert address_of(pod(), "http") == "http://127.0.0.9:9000"
    assert address_of(pod(ip="fd00::1"), "https") == "https://[fd00::1]:9000"
    assert address_of(pod(ready="False"), "http") is None
    assert address_of(pod(ready="Unknown"), "http") is None
    assert address_of(pod(port="http"), "http") is None
    assert address_of(pod(ip=""), "http") is None
    assert address_of(pod(deletionTimestamp="2026-01-01T00:00:00Z"), "http") is None
    assert address_of({**pod(), "status": {}}, "http") is None


@pytest.mark.parametrize("options", [(), ("--agents", "http://127.0.0.1:1", "--selector", "a=b")])
def test_agents_or_a_selector_is_needed_but_not_both(options: tuple[str, ...], capsys: Capture) -> None:
    assert run(["traffic", *options]) == ExitCode.USAGE
    assert "give either --agents or --selector" in capsys.readouterr().err


def test_a_rate_that_is_not_above_zero_names_the_option(capsys: Capture) -> None:
    assert run(["traffic", "--agents", "http://127.0.0.1:1", "--rate", "0"]) == ExitCode.INVALID
    assert "--rate: 0.0 is not a finite number greater than 0" in capsys.readouterr().err


def test_a_kubeconfig_that_is_not_there_is_one_clear_sentence(tmp_path: Path, capsys: Capture) -> None:
    code = run(["traffic", "--selector", "a=b", "--kubeconfig", str(tmp_path / "none")])

    assert code == ExitCode.UNAVAILABLE
    assert "kvtune: no cluster: " in capsys.readouterr().err


def test_an_authority_that_cannot_be_read_is_one_clear_sentence(tmp_path: Path, capsys: Capture) -> None:
    file = str(tmp_path / "ca.crt")

    assert run(["traffic", "--agents", "https://127.0.0.1:1", "--ca-file", file]) == ExitCode.UNAVAILABLE
    assert f"{file}: No such file or directory" in capsys.readouterr().err


def test_the_summary_says_what_became_of_the_requests_and_why() -> None:
    tally = LiveTally(agents={"a": AgentTally(posted_requests=3), "b": AgentTally(posted_requests=1)})
    assert summary(["a", "b"], tally) == "2 agents; 4 requests sent, 0 refused, 0 skipped"

    tally.agents["b"] = AgentTally(refused_requests=2, last_refusal="HTTP 401: no")
    tally.lost_requests = 5
    said = "1 agents; 3 requests sent, 2 refused, 0 skipped, 5 lost for want of an agent"
    assert summary(["a"], tally) == f"{said}; last failure: HTTP 401: no"
