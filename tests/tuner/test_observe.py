"""What the status says of the pool: agents, metrics, targets; and that a pool at rest causes no writes."""

from dataclasses import replace

import pytest

from kvtune_api.knobs import Knob
from kvtune_api.names import ConditionType, Reason
from kvtune_api.policy import HitRateTarget, Mode, Targets, TTFTTarget
from kvtune_api.policy_knobs import Knobs
from kvtune_api.ranges import DurationRange
from kvtune_api.status import Met, Truth
from kvtune_api.units import Duration
from kvtune_tuner.sli import Missing, MissingReason
from tests.fakes.responses import flat
from tests.fakes.sim import PoolSettings
from tests.tuner.loop import loop
from tests.tuner.specs import START, gaining, spec

QUIET = PoolSettings(agents=4, seed=3, noise_sd=0.0005, share_sd=0.0005, common_sd=0.0005)


def test_the_slis_are_measured_and_judged() -> None:
    targets = Targets(ttft=TTFTTarget(quantile=0.7, limit=Duration("250ms")), hit_rate=HitRateTarget(min=0.6))
    run = loop(flat(0.5, 0.8), spec=replace(spec(Mode.OBSERVE), targets=targets))
    run.step()
    ttft, hits = run.status.slis
    assert ttft.met is Met.MET and ttft.value == pytest.approx(0.8, abs=0.03)
    assert hits.met is Met.VIOLATED and hits.value == pytest.approx(0.5, abs=0.03)
    met = run.condition(ConditionType.TARGETS_MET)
    assert (met.status, met.reason) == (Truth.FALSE, Reason.VIOLATED)
    assert "hitRate" in met.message and "target 0.6" in met.message


def test_a_limit_between_two_boundaries_is_a_condition_and_holds_nothing() -> None:
    targets = Targets(ttft=TTFTTarget(quantile=0.79, limit=Duration("240ms")))
    run = loop(gaining(), spec=replace(spec(), targets=targets))
    run.step()
    met = run.condition(ConditionType.TARGETS_MET)
    assert (met.status, met.reason) == (Truth.UNKNOWN, Reason.RESOLUTION_INSUFFICIENT)
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"


@pytest.mark.parametrize(
    "reason", [MissingReason.NAN, MissingReason.NO_DATA, MissingReason.AMBIGUOUS, MissingReason.INCONSISTENT]
)
def test_metrics_that_are_no_numbers_are_missing_and_start_nothing(reason: MissingReason) -> None:
    run = loop(gaining())
    for agent in run.pool.agents.values():
        agent.missing = Missing(reason=reason, message=f"{agent.name}: vllm:prompt_tokens_total")
    run.steps(20)
    available = run.condition(ConditionType.METRICS_AVAILABLE)
    assert (available.status, available.reason) == (Truth.FALSE, Reason.NO_DATA)
    assert str(reason) in available.message and "vllm:prompt_tokens_total" in available.message
    assert not run.experiments
    assert run.status.slis[0].value is None, "missing is not zero"
    for agent in run.pool.agents.values():
        agent.missing = None
    run.step()
    assert run.condition(ConditionType.METRICS_AVAILABLE).status is Truth.TRUE
    assert run.experiments, "it recovers by itself (case 4)"


def test_agents_without_counters_yet_are_no_warning_and_lost_ones_are() -> None:
    run = loop(gaining())
    for agent in run.pool.agents.values():
        agent.missing = Missing(reason=MissingReason.NO_DATA, message="no counters yet")
    run.steps(3)
    assert run.condition(ConditionType.METRICS_AVAILABLE).reason is Reason.NO_DATA
    assert not run.told(Reason.NO_DATA)
    for lost in (False, True):
        for agent in run.pool.agents.values():
            agent.missing = Missing(reason=MissingReason.NO_DATA, message="gone") if lost else None
        run.steps(2)
    assert len(run.told(Reason.NO_DATA)) == 1


def test_each_reason_why_agents_are_not_ready_is_one_event_until_they_are() -> None:
    run = loop(gaining())
    silent = list(run.pool.agents.values())
    for number in (1, 2, len(silent)):
        for agent in silent[:number]:
            agent.down = True
        run.steps(3)
    told = run.told(Reason.UNREACHABLE)
    assert len(told) == 1 and told[0].startswith("1 of "), "a number that changes is no news"
    for agent in silent:
        agent.down = False
    run.steps(2)
    silent[0].down = True
    run.steps(2)
    assert len(run.told(Reason.UNREACHABLE)) == 2


def test_no_traffic_is_said_as_such_and_starts_nothing() -> None:
    run = loop(gaining())
    run.pool.set_traffic(run.now - 600, request_rate=0.0)
    run.steps(3)
    assert run.condition(ConditionType.METRICS_AVAILABLE).reason is Reason.NO_TRAFFIC
    assert run.condition(ConditionType.EXPERIMENTING).reason is Reason.NO_TRAFFIC
    assert not run.experiments


def test_case_07_metrics_that_appear_later_count_from_then_on() -> None:
    run = loop(gaining())
    for agent in run.pool.agents.values():
        agent.missing = Missing(reason=MissingReason.NO_DATA, message="empty")
    run.steps(30)
    for agent in run.pool.agents.values():
        agent.missing = None
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"
    assert min(row.start for row in run.rows) >= run.experiment.status.started_at


def test_one_agent_without_metrics_does_not_hide_the_others() -> None:
    run = loop(flat())
    run.pool.agents[run.pool.names()[0]].nan = True
    run.step()
    assert run.condition(ConditionType.METRICS_AVAILABLE).status is Truth.TRUE
    assert run.status.slis[0].value is not None


def test_case_42_ten_thousand_ticks_of_a_resting_policy_write_nothing() -> None:
    run = loop(flat(), spec=replace(spec(), paused=True), settings=replace(QUIET, agents=2))
    run.steps(10)
    before, events, size = run.writes, len(run.events), len(run.status.conditions)
    run.steps(10_000)
    assert run.writes == before, "zero writes"
    assert len(run.events) == events and len(run.pool.log) == 0
    assert len(run.status.conditions) == size and not run.experiments


@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.OBSERVE])
def test_case_39_a_policy_with_nothing_to_try_writes_nothing(mode: Mode) -> None:
    fixed = DurationRange(min=Duration("60s"), max=Duration("60s"))
    run = loop(flat(), spec=replace(spec(mode), knobs=Knobs(cache_ttl=fixed)), settings=QUIET)
    run.steps(10)
    assert run.condition(ConditionType.EXPERIMENTING).reason is Reason.NOTHING_TO_TRY
    before = run.writes
    run.steps(200)
    assert run.writes == before


def test_observe_writes_nothing_while_its_answer_stays_the_same() -> None:
    run = loop(flat(), spec=spec(Mode.OBSERVE), settings=QUIET)
    run.steps(10)
    before = run.writes
    run.steps(300)
    assert run.writes == before


def test_a_lasting_lack_of_data_is_written_once() -> None:
    run = loop(gaining(), settings=QUIET)
    for name in run.pool.names():
        run.pool.restart(name, run.now)
    for agent in run.pool.agents.values():
        agent.missing = None
    run.pool.set_traffic(run.now, request_rate=0.0)
    run.steps(40)
    before = run.writes
    run.steps(100)
    assert run.writes == before


def test_different_versions_hold_and_are_named() -> None:
    run = loop(gaining())
    run.pool.agents[run.pool.names()[0]].version = "0.2.0"
    run.steps(3)
    ready = run.condition(ConditionType.AGENTS_READY)
    assert (ready.status, ready.reason) == (Truth.FALSE, Reason.MIXED_VERSIONS)
    assert "0.1.0, 0.2.0" in ready.message
    assert not run.experiments and "different versions" in run.status.waiting_for


def test_one_agent_alone_is_too_few() -> None:
    run = loop(gaining(), agents=1)
    run.steps(3)
    assert run.condition(ConditionType.AGENTS_READY).reason is Reason.TOO_FEW_AGENTS
    assert not run.experiments
    assert run.all_run(START)


def test_case_04_agents_that_answer_later_are_taken_without_a_restart() -> None:
    run = loop(gaining())
    for agent in run.pool.agents.values():
        agent.down = True
    run.steps(5)
    ready = run.condition(ConditionType.AGENTS_READY)
    assert (ready.status, ready.reason) == (Truth.FALSE, Reason.UNREACHABLE)
    assert "6 of 6 agents do not answer" in ready.message and "connection refused" in ready.message
    for agent in run.pool.agents.values():
        agent.down = False
    run.step()
    assert run.condition(ConditionType.AGENTS_READY).status is Truth.TRUE
    assert run.experiments


def test_a_slow_agent_is_like_one_that_does_not_answer() -> None:
    run = loop(gaining())
    run.pool.agents[run.pool.names()[0]].slow = True
    run.step()
    ready = run.condition(ConditionType.AGENTS_READY)
    assert (ready.status, ready.reason) == (Truth.FALSE, Reason.UNREACHABLE)
    assert run.status.agents == 6 and run.status.agents_ready == 5


def test_a_knob_that_one_agent_lacks_is_left_out_and_named() -> None:
    run = loop(gaining())
    run.pool.agents[run.pool.names()[0]].unsupported = frozenset({Knob.CACHE_TTL})
    run.steps(3)
    ready = run.condition(ConditionType.AGENTS_READY)
    assert (ready.status, ready.reason) == (Truth.FALSE, Reason.KNOB_UNSUPPORTED)
    assert not run.experiments and not run.pool.log
