"""Settings of an operator in a cluster, its log lines, and what its health endpoint says."""

import json
import logging
import sys
from typing import Any

import httpx
import pytest

from kvtune_api.errors import SpecError
from kvtune_api.names import Metric, Phase
from kvtune_api.status import PolicyStatus
from kvtune_operator.cluster_settings import ClusterSettings, from_environment, namespaces_in
from kvtune_operator.cluster_telemetry import ClusterTelemetry
from kvtune_operator.cluster_vitals import ClusterVitals, Stage
from kvtune_operator.health import create_app
from kvtune_operator.logs import JsonFormatter, TextFormatter
from kvtune_operator.observed import Pulse


def test_a_pod_needs_only_its_namespace() -> None:
    settings = ClusterSettings(namespace="kvtune-system")

    assert settings.kubeconfig is None
    assert settings.served == ("all namespaces",)
    assert (settings.tick_seconds, settings.lease_seconds) == (5.0, 15.0)


def test_everything_wrong_is_told_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        ClusterSettings(
            namespace="Not_A_Namespace",
            watch_namespaces=("good", "no/good"),
            tick_seconds=float("nan"),
            lease_seconds=0.2,
            health_port=70_000,
            lease_name="",
        )

    paths = [problem.path for problem in caught.value.problems]
    wrong = ["tickSeconds", "leaseSeconds", "healthPort", "leaseName", "namespace", "watchNamespaces[1]"]
    assert paths == wrong


def test_a_pod_says_who_and_where_it_is() -> None:
    environment = {
        "POD_NAME": "kvtune-operator-0",
        "POD_NAMESPACE": "x",
        "WATCH_NAMESPACES": "  ",
        "HOME": "/",
    }

    assert from_environment(environment) == {"POD_NAME": "kvtune-operator-0", "POD_NAMESPACE": "x"}
    assert namespaces_in("chat, rag,,chat ") == ("chat", "rag")


def record(**fields: object) -> logging.LogRecord:
    made = logging.LogRecord("kvtune_operator.cluster", logging.INFO, "", 0, "policy taken up", (), None)
    vars(made).update(fields)
    return made


def test_a_json_line_carries_the_event_and_its_fields() -> None:
    line = json.loads(JsonFormatter().format(record(policy="chat", namespace="x")))

    assert line.pop("time").endswith("+00:00")
    expected = {"level": "INFO", "logger": "kvtune_operator.cluster", "event": "policy taken up"}
    assert line == expected | {"policy": "chat", "namespace": "x"}


def test_a_bugs_traceback_is_one_field_of_a_json_line_and_follows_a_text_line() -> None:
    try:
        raise ZeroDivisionError("division by zero")
    except ZeroDivisionError:
        made = record(policy="chat", exc_info=sys.exc_info())

    assert "ZeroDivisionError: division by zero" in json.loads(JsonFormatter().format(made))["traceback"]
    first, *rest = TextFormatter().format(made).splitlines()
    assert first.endswith("INFO policy taken up policy=chat")
    assert rest[-1] == "ZeroDivisionError: division by zero"


def vitals(now: list[float], *tasks: str) -> ClusterVitals:
    return ClusterVitals(
        pulse=Pulse(started=0.0),
        telemetry=ClusterTelemetry(),
        monotonic=lambda: now[0],
        stuck_after_seconds=60.0,
        tasks=lambda: tasks,
    )


async def probe(found: ClusterVitals, path: str) -> tuple[int, dict[str, Any]]:
    transport = httpx.ASGITransport(create_app(found))
    async with httpx.AsyncClient(transport=transport, base_url="http://operator") as client:
        answer = await client.get(path)
    return answer.status_code, answer.json()


async def test_a_standby_is_alive_and_ready() -> None:
    found = vitals([1000.0])
    found.stage = Stage.STANDBY

    assert await probe(found, "/healthz") == (200, {"stage": "Standby", "policies": 0})
    assert (await probe(found, "/readyz"))[0] == 200


@pytest.mark.parametrize("stage", [Stage.CONNECTING, Stage.STARTING, Stage.STOPPING])
async def test_whoever_starts_or_stops_is_alive_but_not_ready(stage: Stage) -> None:
    found = vitals([1000.0])
    found.stage, found.waits_for = stage, "CRDs are missing"

    assert (await probe(found, "/healthz"))[0] == 200
    status, said = await probe(found, "/readyz")
    assert (status, said["waitsFor"]) == (503, "CRDs are missing")


async def test_a_leader_with_one_stuck_policy_is_not_alive_and_names_it() -> None:
    now = [100.0]
    found = vitals(now, "chat/a", "chat/b")
    found.stage = Stage.LEADING
    found.pulse.steps |= {"chat/a": 100.0, "chat/b": 30.0}

    status, said = await probe(found, "/healthz")

    assert (status, said["stuck"]) == (503, ["chat/b"])


async def test_a_leader_whose_settings_are_not_followed_is_not_alive_and_says_so() -> None:
    found = vitals([100.0])
    found.stage = Stage.LEADING
    found.down.add("settings")

    status, said = await probe(found, "/healthz")

    assert (status, said["down"]) == (503, ["settings"])


def test_the_series_of_a_policy_end_with_it() -> None:
    telemetry = ClusterTelemetry()
    for name in ("chat/a", "chat/b"):
        telemetry.status(name, PolicyStatus(phase=Phase.IDLE))
    telemetry.gone("chat/a")

    shown = {
        sample.labels["policy"]
        for family in telemetry.registry.collect()
        if family.name == Metric.CONTROL_PHASE
        for sample in family.samples
    }
    assert shown == {"chat/b"}
