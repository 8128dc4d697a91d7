"""When an experiment starts, and each reason why none does."""

from dataclasses import replace

import pytest

from kvtune_api.knobs import CacheConfig
from kvtune_api.names import ConditionType, Phase, Reason
from kvtune_api.policy import Mode
from kvtune_api.policy_knobs import Knobs
from kvtune_api.ranges import DurationRange
from kvtune_api.status import Noise, PolicyStatus, Truth
from kvtune_api.units import Duration
from kvtune_tuner.draft import moment
from kvtune_tuner.model import Verb
from tests.fakes.responses import flat
from tests.fakes.sim import PoolSettings
from tests.tuner.loop import BEGIN, Loop, loop
from tests.tuner.specs import BETTER, QUICK, START, gaining, spec


def _why(run: Loop) -> tuple[Reason, str]:
    found = run.condition(ConditionType.EXPERIMENTING)
    return found.reason, found.message


def test_before_the_start_the_duration_is_said_and_honest() -> None:
    run = loop(gaining())
    run.step()
    promised = run.experiment.status.estimated_end
    assert promised is not None and run.status.estimated_end == moment(promised)
    run.until_ended()
    assert run.now <= promised + 60
    assert run.now >= BEGIN + (promised - BEGIN) * 0.6


def test_the_power_is_said_once_the_noise_is_known() -> None:
    run = loop(gaining())
    run.until_phase(Phase.WASHOUT)
    record = run.experiment.status
    assert record.power is not None and 0.5 <= record.power <= 1.0
    assert record.guardrail_power is not None and record.guardrail_power <= record.power
    assert run.status.power == record.power


def test_an_experiment_without_power_is_refused_with_the_max_pairs_that_would_do() -> None:
    settings = replace(QUICK, detectable_effect=0.004)
    run = loop(flat(), spec=spec(settings=settings), settings=PoolSettings(agents=6, seed=1, noise_sd=0.03))
    run.until_ended()
    assert run.outcome() == "Aborted(Underpowered)", "the run-in has shown it"
    assert not any(row.block >= 0 for row in run.rows), "nobody was exposed"
    run.steps(3)
    reason, why = _why(run)
    assert reason is Reason.UNDERPOWERED
    assert "maxPairs" in why and "would do" in why
    assert run.status.experiments_started == 1, "the next is refused before any start"


def test_max_pairs_below_one_block_is_no_lack_of_power() -> None:
    settings = replace(QUICK, pairs_at_once=15, max_pairs=12, min_pairs=8)
    run = loop(gaining(), spec=spec(settings=settings), agents=30)
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"
    assert run.experiment.status.evidence.deltas == 15


def test_a_single_knob_step_may_last_until_min_pairs_at_least() -> None:
    run = loop(flat(), spec=spec(settings=replace(QUICK, min_pairs=20, max_pairs=40)))
    run.until_ended(2, limit=1500)
    assert all(found.spec.max_pairs >= 20 for found in run.experiments.values())


def test_the_incumbents_own_measurement_comes_first() -> None:
    settings = PoolSettings(agents=6, seed=1, noise_sd=0.005, warm_seconds=60)
    run = loop(gaining(), settings=settings)
    run.step()
    assert _why(run)[0] is Reason.NO_DATA
    run.until(lambda: bool(run.experiments))
    assert run.now - BEGIN >= 80


def test_old_noise_is_measured_again_after_a_day() -> None:
    run = loop(gaining(-0.06))
    run.until_ended()
    noise = run.status.noise
    assert noise is not None
    old = replace(noise, measured_at=moment(run.now - 25 * 3600))
    run.policy = replace(run.policy, status=replace(run.status, noise=old))
    run.until(lambda: run.status.experiments_started == 2)
    assert run.experiment.spec.run_in


def test_another_pairing_is_measured_again() -> None:
    run = loop(gaining(-0.06))
    run.until_ended()
    gone = run.experiment.spec.pairs[0].first
    run.pool.leave(gone)
    run.until(lambda: run.status.experiments_started == 2)
    assert run.experiment.spec.run_in
    assert gone not in {n for p in run.experiment.spec.pairs for n in (p.first, p.second)}


def test_at_most_pairs_at_once_take_part() -> None:
    run = loop(gaining(), spec=spec(settings=replace(QUICK, pairs_at_once=2)), agents=9)
    run.until_phase(Phase.WASHOUT)
    run.step()
    assert len(run.experiment.spec.pairs) == 2 and len(run.exposed()) == 2


def test_an_odd_agent_stays_on_the_incumbent() -> None:
    run = loop(gaining(), agents=7)
    run.until_phase(Phase.MEASURING)
    arms = {n for p in run.experiment.spec.pairs for n in (p.first, p.second)}
    (odd,) = set(run.pool.names()) - arms
    while run.phase in (Phase.WASHOUT, Phase.MEASURING):
        assert odd not in run.exposed()
        run.step()


def test_a_shifted_workload_lets_old_losers_be_tried_again() -> None:
    run = loop(gaining(-0.06))
    run.until(lambda: _tried_out(run), limit=1500)
    tried = run.status.experiments_started
    run.steps(10)
    assert run.status.experiments_started == tried
    run.pool.set_traffic(run.now, request_rate=15.0)
    run.until(lambda: run.status.experiments_started > tried, limit=120)
    assert any("shifted" in message for message in run.told(Reason.SUPERSEDED))


def test_the_seed_of_an_experiment_follows_from_policy_and_number() -> None:
    first, second = loop(gaining(), seed=1), loop(gaining(), seed=2)
    first.step()
    second.step()
    assert first.experiment.spec.seed == second.experiment.spec.seed


def test_what_is_judged_is_a_snapshot_with_its_hash() -> None:
    run = loop(gaining())
    run.step()
    judged = run.experiment.spec
    assert judged.policy_spec == run.policy.spec and len(judged.policy_hash) == 16
    assert (judged.incumbent, judged.candidate) == (START, BETTER)


def test_the_budget_refuses_what_cannot_end_in_time_and_says_what_would_be_next() -> None:
    run = loop(gaining())
    run.ends_at = run.now + 900
    run.steps(30)
    reason, why = _why(run)
    assert reason is Reason.BUDGET and "cacheTTL 60s -> 240s" in why
    assert not run.experiments


@pytest.mark.parametrize("paused", ["spec", "command"])
def test_a_paused_policy_starts_nothing_and_says_by_whom(paused: str) -> None:
    run = loop(gaining(), spec=replace(spec(), paused=paused == "spec"))
    if paused == "command":
        run.wish(Verb.PAUSE)
    run.steps(20)
    assert run.phase is Phase.PAUSED and not run.experiments
    reason, why = _why(run)
    assert reason is Reason.PAUSED and ("spec.paused" if paused == "spec" else "kvtune pause") in why
    if paused == "command":
        run.wish(Verb.RESUME)
    else:
        run.edit(spec())
    run.steps(2)
    assert run.experiments


def test_pausing_aborts_what_runs_and_restores_the_incumbent() -> None:
    run = loop(gaining())
    run.until_phase(Phase.MEASURING)
    run.edit(replace(spec(), paused=True))
    run.until_ended()
    assert run.outcome() == "Aborted(User)" and "spec.paused" in run.experiment.status.message
    assert run.all_run(START)
    run.step()
    assert run.phase is Phase.PAUSED


def test_an_edit_makes_a_new_proposal_at_once() -> None:
    fixed = Knobs(cache_ttl=DurationRange(min=Duration("60s"), max=Duration("60s")))
    run = loop(gaining(), spec=replace(spec(), knobs=fixed))
    run.steps(3)
    assert _why(run)[0] is Reason.NOTHING_TO_TRY
    run.edit(spec())
    run.steps(2)
    assert run.experiments


def test_a_known_noise_saves_the_run_in() -> None:
    run = loop(gaining())
    run.step()
    pairs, pairing = run.experiment.spec.pairs, run.experiment.spec.pairing
    again = loop(gaining())
    noise = Noise(objective=0.01, measured_at=moment(again.now), pairs=pairs, pairing=pairing)
    again.policy = replace(again.policy, status=PolicyStatus(noise=noise))
    again.step()
    assert again.phase is Phase.WASHOUT and not again.experiment.spec.run_in


def test_cooldown_is_waited_for_and_shown() -> None:
    run = loop(gaining(-0.06), spec=spec(settings=replace(QUICK, cooldown=Duration("5m"))))
    run.until_ended()
    run.step()
    assert _why(run)[0] is Reason.COOLDOWN
    run.steps(28)
    assert run.status.experiments_started == 1
    run.steps(4)
    assert run.status.experiments_started == 2


def test_an_aa_test_needs_no_power() -> None:
    settings = replace(QUICK, detectable_effect=0.001)
    run = loop(
        flat(), spec=spec(Mode.AA_TEST, settings), settings=PoolSettings(agents=4, seed=1, noise_sd=0.03)
    )
    run.until_ended()
    assert run.outcome() != "Aborted(Underpowered)"
    assert run.condition(ConditionType.EXPERIMENTING).status is Truth.FALSE


def test_the_order_of_a_user_keeps_to_bounds_and_steps() -> None:
    run = loop(gaining())
    run.wish(Verb.TRY, config=CacheConfig(cache_ttl=Duration("600s")))
    run.step()
    assert not run.wishes and "largest step" in run.told(Reason.NOT_AVAILABLE)[0]


def _tried_out(run: Loop) -> bool:
    return bool(run.experiments) and run.status.experiment is None and _why(run)[0] is Reason.NOTHING_TO_TRY
