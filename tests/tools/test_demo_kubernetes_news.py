"""What the demo on Kubernetes tells of policies, experiments and events."""

from typing import Any

import pytest

from tests.tools.recorded_kubectl import Recorded
from tools.demo_kubernetes.news import COLUMNS, LEGEND, QUIET_SECONDS, Told, tell_news


def policy(**status: object) -> dict[str, Any]:
    return {"kind": "KVCachePolicy", "metadata": {"name": "quick"}, "status": status}


def experiment(number: int, **status: object) -> dict[str, Any]:
    return {"kind": "KVCacheExperiment", "metadata": {"name": f"quick-0000{number}"}, "status": status}


def test_a_phase_is_news_and_slis_that_wobble_are_told_now_and_then_and_an_age_never() -> None:
    said: list[str] = []
    kubectl, told = Recorded({"get kvp": "NAME PHASE TTFT AGE\nquick Idle 91% 9s"}), Told()
    kubectl.objects = [policy(phase="Idle")]
    tell_news(said.append, kubectl, told, 1.0)
    kubectl.answers["get kvp"] = "NAME PHASE TTFT AGE\nquick Idle 92% 19s"
    tell_news(said.append, kubectl, told, QUIET_SECONDS)
    assert len(said) == 1
    tell_news(said.append, kubectl, told, QUIET_SECONDS + 1.0)
    assert len(said) == 2
    kubectl.answers["get kvp"] = "NAME PHASE TTFT AGE\nquick Idle 92% 2m19s"
    tell_news(said.append, kubectl, told, 3 * QUIET_SECONDS)
    assert len(said) == 2
    kubectl.objects = [policy(phase="RunIn")]
    tell_news(said.append, kubectl, told, 3 * QUIET_SECONDS + 1.0)
    assert len(said) == 3


def test_only_the_last_experiments_row_is_told_and_only_when_it_moves() -> None:
    said: list[str] = []
    kubectl, told = Recorded({"get kvx": "NAME DELTAS\nquick-00002 4/36"}), Told()
    kubectl.objects = [experiment(2, shown={"deltas": "4/36"}), experiment(1, outcome="Rejected")]

    tell_news(said.append, kubectl, told, 1.0)
    tell_news(said.append, kubectl, told, 2.0)

    rows = [text for text in said if "kvx" in text]
    assert rows == ["   1 s  $ kubectl get kvx quick-00002\nNAME DELTAS\nquick-00002 4/36"]


def test_a_promotion_is_found_with_its_message() -> None:
    kubectl = Recorded()
    kubectl.objects = [experiment(1, outcome="Promoted", message="better")]

    assert tell_news(lambda _: None, kubectl, Told(), 1.0) == "quick-00001: better"


def event(reason: str, message: str, kind: str = "KVCachePolicy") -> dict[str, Any]:
    about = {"apiVersion": "kvtune.dev/v1alpha1", "kind": kind, "name": "quick"}
    return {"type": "Normal", "reason": reason, "message": message, "involvedObject": about}


def test_an_event_is_told_once_of_the_policy_only() -> None:
    said: list[str] = []
    ours = event("ExperimentStarted", "m")
    other = {**ours, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "pod"}}
    kubectl, told = (
        Recorded(events=[ours, event("ExperimentStarted", "m", "KVCacheExperiment"), other]),
        Told(),
    )

    tell_news(said.append, kubectl, told, 1.0)
    tell_news(said.append, kubectl, told, 2.0)

    assert [text for text in said if "event" in text] == ["   1 s  event  ExperimentStarted: m"]


def test_no_line_is_wider_than_a_terminal() -> None:
    said: list[str] = ["", LEGEND]
    kubectl = Recorded({"get kvp": f"NAME  WAITING\nquick {'waits ' * 40}"})
    kubectl.events = [event("ExperimentStarted", "word " * 60)]

    tell_news(said.append, kubectl, Told(), 1.0)

    lines = [line for text in said for line in f"demo-kubernetes: {text}".splitlines()]
    assert max(map(len, lines)) <= COLUMNS


@pytest.mark.parametrize(
    ("message", "outcome", "hints"),
    [
        ("epoch 3: 3 of 4 pairs do not count (AgentLeft)", None, 1),
        ("epoch 3: 1 of 4 pairs do not count (AgentLeft)", None, 0),
        ("epoch 3: 3 of 4 pairs do not count (Restarted)", None, 0),
        ("-", "NoData", 1),
        ("-", "Rejected", 0),
    ],
)
def test_where_most_is_lost_a_hint_is_given_once(message: str, outcome: str | None, hints: int) -> None:
    said: list[str] = []
    kubectl, told = Recorded(events=[event("EpochDropped", message)]), Told()
    kubectl.objects = [experiment(1, outcome=outcome)]

    tell_news(said.append, kubectl, told, 1.0)
    tell_news(said.append, kubectl, told, 2.0)

    assert sum("may be too busy" in text for text in said) == hints
