"""The control plane's own endpoint: alive, ready, metrics and status, and what its ports tell it."""

import gc
import socket
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kvtune_api.errors import Unavailable
from kvtune_api.evidence import Evidence
from kvtune_api.names import Metric, Outcome, OutcomeReason, Phase
from kvtune_api.status import Met, PolicyStatus, Sli
from kvtune_operator.health import Vitals, create_app, served
from kvtune_operator.observed import ObservedAgents, ObservedClock, ObservedMetrics, ObservedObjects, Pulse
from kvtune_operator.telemetry import Telemetry
from tests.fakes.clock import FakeClock
from tests.fakes.objects import FakeObjects
from tests.fakes.pool import FakeAgents, FakeMetrics, Pool
from tests.fakes.samples import cache_config, experiment, policy, push
from tests.fakes.sim import PoolSettings


@dataclass
class Rig:
    """A control plane's observed ports, and its endpoint."""

    client: httpx.AsyncClient
    clock: FakeClock
    objects: FakeObjects
    observed: ObservedObjects
    observed_clock: ObservedClock
    telemetry: Telemetry
    pulse: Pulse

    async def metrics(self) -> dict[tuple[str, str], float]:
        """Samples by name and values of the labels in the order of their names."""
        text = (await self.client.get("/metrics")).text
        return {
            (sample.name, ",".join(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    clock, objects, telemetry = FakeClock(), FakeObjects(), Telemetry()
    monotonic = lambda: clock.seconds  # noqa: E731  # a clock in one line
    pulse = Pulse(started=clock.seconds)
    vitals = Vitals(pulse=pulse, telemetry=telemetry, monotonic=monotonic, stuck_after_seconds=15.0)
    transport = httpx.ASGITransport(create_app(vitals))
    async with httpx.AsyncClient(transport=transport, base_url="http://control") as client:
        observed_clock = ObservedClock(clock, pulse, telemetry, monotonic)
        observed = ObservedObjects(objects, pulse, telemetry)
        yield Rig(client, clock, objects, observed, observed_clock, telemetry, pulse)


async def status_of(rig: Rig, path: str) -> int:
    return (await rig.client.get(path)).status_code


async def test_it_is_alive_but_not_ready_before_its_first_step(rig: Rig) -> None:
    assert await status_of(rig, "/healthz") == 200
    assert await status_of(rig, "/readyz") == 503


async def test_it_is_ready_once_a_step_has_ended(rig: Rig) -> None:
    await rig.observed_clock.sleep(5.0)

    assert await status_of(rig, "/readyz") == 200
    assert rig.observed_clock.now() == rig.clock.now()


async def test_it_is_neither_when_steps_stay_away(rig: Rig) -> None:
    await rig.observed_clock.sleep(5.0)
    rig.clock.advance(11.0)

    answer = await rig.client.get("/healthz")

    assert answer.status_code == 503
    assert answer.json() == {"lastStepSecondsAgo": 16.0, "stuckAfterSeconds": 15.0, "stepped": True}
    assert await status_of(rig, "/readyz") == 503


async def test_a_step_is_timed_from_waking_to_sleeping(rig: Rig) -> None:
    await rig.observed_clock.sleep(5.0)
    rig.clock.advance(2.0)
    await rig.observed_clock.sleep(5.0)

    found = await rig.metrics()

    assert found[(f"{Metric.CONTROL_TICK}_count", "")] == 2
    assert found[(f"{Metric.CONTROL_TICK}_sum", "")] == 2.0


async def test_the_status_and_the_experiment_are_shown_as_written(rig: Rig) -> None:
    read = rig.objects.apply("chat", policy().spec)
    status = PolicyStatus(
        phase=Phase.MEASURING,
        experiment="chat-1",
        slis=(Sli(name="hitRate", value=0.5, target=0.4, met=Met.MET), Sli(name="ttft", reason="NoTraffic")),
    )
    await rig.observed.put_policy_status(read, status)
    running = experiment()
    evidence = Evidence(deltas=3, e_value=2.5)
    await rig.observed.put_experiment(replace(running, status=replace(running.status, evidence=evidence)))

    shown = (await rig.client.get("/v1/status")).json()
    found = await rig.metrics()

    assert shown["policies"][0]["status"]["phase"] == "Measuring"
    assert shown["experiments"][0]["metadata"]["name"] == "chat-1"
    assert found[(Metric.CONTROL_PHASE, "Measuring,chat")] == 1
    assert found[(Metric.CONTROL_PHASE, "Idle,chat")] == 0
    assert found[(Metric.CONTROL_SLI, "chat,hitRate")] == 0.5
    assert found[(Metric.CONTROL_TARGET, "chat,hitRate")] == 0.4
    assert (Metric.CONTROL_SLI, "chat,ttft") not in found, "missing is not zero"
    assert found[(Metric.CONTROL_E_VALUE, "chat")] == 2.5
    assert found[(Metric.CONTROL_DELTAS, "chat")] == 3


async def test_an_experiment_that_has_ended_is_counted_once_and_leaves_no_evidence(rig: Rig) -> None:
    read = rig.objects.apply("chat", policy().spec)
    running = await rig.observed.put_experiment(experiment())
    ended = replace(running.status, outcome=Outcome.PROMOTED, reason=OutcomeReason.SUPERIOR)

    stored = await rig.observed.put_experiment(replace(running, status=ended))
    await rig.observed.put_experiment(stored)
    await rig.observed.put_policy_status(read, PolicyStatus())

    found = await rig.metrics()
    assert found[(f"{Metric.CONTROL_EXPERIMENTS}_total", "Promoted,chat,Superior")] == 1
    assert (Metric.CONTROL_E_VALUE, "chat") not in found


def test_case_42_nothing_is_kept_of_each_experiment_that_has_ended() -> None:
    telemetry, running = Telemetry(), experiment()
    ended = replace(running.status, outcome=Outcome.PROMOTED, reason=OutcomeReason.SUPERIOR)

    def end(numbers: range) -> None:
        for number in numbers:
            metadata = replace(running.metadata, name=f"chat-{number:05}")
            telemetry.experiment("ai/chat", replace(running, metadata=metadata, status=ended))

    end(range(100))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        end(range(100, 2100))
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 20_000, "bytes over 2,000 experiments"


async def test_a_failing_store_is_counted(rig: Rig) -> None:
    rig.objects.broken = "disk full"

    with pytest.raises(Unavailable):
        await rig.observed.policy("chat")

    assert (await rig.metrics())[(f"{Metric.CONTROL_TICKS_FAILED}_total", "Unavailable")] == 1


async def test_pushes_and_missing_samples_are_counted_by_kind(rig: Rig) -> None:
    pool = Pool(PoolSettings(agents=3), config=cache_config())
    first, second, third = pool.names()
    pool.agents[second].down = True
    pool.agents[third].refuses_token = True
    agents = ObservedAgents(FakeAgents(pool, rig.clock), rig.telemetry)
    metrics = ObservedMetrics(FakeMetrics(pool, rig.clock), rig.telemetry)

    await agents.push(dict.fromkeys((first, second, third), push()))
    await metrics.newest(pool.names())
    await metrics.counters_at(pool.names(), rig.clock.seconds)

    found = await rig.metrics()
    pushes = f"{Metric.CONTROL_PUSHES}_total"
    assert [found[(pushes, kind)] for kind in ("Accepted", "Refused", "Unreachable")] == [1, 1, 1]
    assert found[(f"{Metric.CONTROL_MISSING}_total", "Unreachable")] == 2


async def test_a_policy_that_is_gone_is_no_longer_shown(rig: Rig) -> None:
    rig.objects.apply("chat", policy().spec)
    await rig.observed.policy("chat")
    rig.objects.delete_policy("chat")
    await rig.observed.policy("chat")

    assert (await rig.client.get("/v1/status")).json() == {"policies": [], "experiments": []}


async def test_the_endpoint_is_served_on_a_free_port_and_ends(rig: Rig) -> None:
    vitals = Vitals(
        pulse=rig.pulse, telemetry=rig.telemetry, monotonic=lambda: rig.clock.seconds, stuck_after_seconds=15
    )
    async with (
        served(create_app(vitals), "127.0.0.1", 0) as address,
        httpx.AsyncClient(trust_env=False) as client,
    ):
        answer = await client.get(f"{address}/healthz", timeout=30)

    assert answer.status_code == 200


async def test_a_port_that_is_taken_is_told(rig: Rig) -> None:
    vitals = Vitals(pulse=rig.pulse, telemetry=rig.telemetry, monotonic=lambda: 0.0, stuck_after_seconds=15)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match=f"127.0.0.1:{port}: Address already in use"):
            async with served(create_app(vitals), "127.0.0.1", port):
                pass
