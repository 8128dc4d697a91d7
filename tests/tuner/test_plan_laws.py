"""Laws of the plan that hold whatever happens to the pool: over random schedules of faults.

Each example starts from a run that has come to some phase, lets faults happen, then lets the world
heal, and looks at every tick.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache

from hypothesis import HealthCheck, given, settings
from hypothesis import Phase as HypothesisPhase
from hypothesis import strategies as st

from kvtune_api import codec
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.knobs import Knob, point
from kvtune_api.names import Phase
from kvtune_api.policy import Mode
from kvtune_api.status import PolicyStatus
from kvtune_api.wire import Report, Role
from kvtune_tuner.model import Plan, Seen
from kvtune_tuner.phases import EXPOSED, RESTING
from kvtune_tuner.plan import plan
from kvtune_tuner.replay import replay
from tests.tuner.faults import HAPPENINGS, RESTED, Happening, heal
from tests.tuner.loop import LEASE_SECONDS, Loop, key, loop
from tests.tuner.specs import gaining, spec

BEGINNINGS = (
    Phase.IDLE,
    Phase.RUN_IN,
    Phase.WASHOUT,
    Phase.MEASURING,
    Phase.AWAITING_APPROVAL,
    Phase.PROMOTING,
    Phase.WATCHING,
    Phase.ROLLING_BACK,
)


@cache
def _begun(phase: Phase) -> Loop:
    mode = Mode.RECOMMEND if phase is Phase.AWAITING_APPROVAL else Mode.AUTO
    run = loop(gaining(-0.06 if phase is Phase.ROLLING_BACK else 0.06), spec=spec(mode, RESTED))
    run.until_phase(phase)
    run.last = None
    return run


def begun(phase: Phase) -> Loop:
    """A run of its own that has come to a phase."""
    return deepcopy(_begun(phase))


LAWS = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    phases=(HypothesisPhase.explicit, HypothesisPhase.generate, HypothesisPhase.shrink),
    suppress_health_check=[HealthCheck.too_slow],
)


def happen(run: Loop, happenings: list[Happening], look: Callable[[Seen, Plan], None]) -> None:
    """Carry out a schedule, looking at every tick."""
    for each in happenings:
        names = run.pool.names()
        each.fault(run, names[each.agent % len(names)])
        for _ in range(each.ticks):
            _looked(run, look)


def _looked(run: Loop, look: Callable[[Seen, Plan], None]) -> None:
    run.last = None
    decided = run.step()
    assert run.last is not None
    look(run.last, decided)


@LAWS
@given(st.sampled_from(BEGINNINGS), HAPPENINGS)
def test_whatever_happens_the_laws_hold_and_the_policy_comes_to_rest(
    phase: Phase, happenings: list[Happening]
) -> None:
    run = begun(phase)
    before: list[Phase] = [run.phase]

    def look(seen: Seen, decided: Plan) -> None:
        _is_deterministic(seen, decided)
        _pushes_within_bounds(seen, decided)
        _has_a_deadline(seen, decided, before[-1])
        _has_no_row_twice(decided.experiment)
        _can_be_stored(decided)
        before.append(decided.status.phase)

    happen(run, happenings, look)
    heal(run)
    for _ in range(250):
        _looked(run, look)
        if run.phase in RESTING and run.phase is not Phase.AWAITING_APPROVAL:
            break
    assert run.phase in RESTING, f"{run.phase}: {run.status.waiting_for}"
    for found in run.experiments.values():
        if found.status.outcome is not None:
            assert replay(found).differences == ()


def _is_deterministic(seen: Seen, decided: Plan) -> None:
    assert plan(seen) == decided


def _pushes_within_bounds(seen: Seen, decided: Plan) -> None:
    ttl = seen.policy.spec.knobs.cache_ttl
    assert ttl is not None
    incumbent = decided.status.incumbent
    for push in decided.pushes.values():
        value = point(push.config).get(Knob.CACHE_TTL)
        assert value is not None and ttl.min.seconds <= value <= ttl.max.seconds
        if push.role is Role.CANDIDATE:
            assert incumbent is not None and decided.status.phase in EXPOSED
            current = point(incumbent)[Knob.CACHE_TTL]
            assert current / 4.001 <= value <= current * 4.001
            assert push.lease_seconds is not None and push.lease_seconds <= LEASE_SECONDS


def _has_a_deadline(seen: Seen, decided: Plan, before: Phase) -> None:
    found = decided.experiment or seen.experiment
    phase = decided.status.phase
    if phase in (Phase.IDLE, Phase.PAUSED) or phase is before or found is None:
        return
    assert found.status.deadline > seen.now.timestamp(), f"{before} -> {phase}"


def _has_no_row_twice(found: KVCacheExperiment | None) -> None:
    if found is not None:
        keys = [each[:4] for each in key(found.status.rows)]
        assert len(keys) == len(set(keys))


def _can_be_stored(decided: Plan) -> None:
    codec.canonical(decided.status)  # refuses NaN and the infinities
    assert codec.parse(PolicyStatus, codec.dump(decided.status)) == decided.status
    if decided.experiment is not None:
        assert codec.parse(KVCacheExperiment, codec.dump(decided.experiment)) == decided.experiment


@LAWS
@given(st.sampled_from(BEGINNINGS), HAPPENINGS)
def test_when_the_control_plane_stops_nobody_is_exposed_longer_than_a_lease(
    phase: Phase, happenings: list[Happening]
) -> None:
    run = begun(phase)
    happen(run, happenings, lambda seen, decided: None)
    heal(run)
    run.now += LEASE_SECONDS + run.tick
    for name in run.pool.names():
        report = run.pool.report(name, run.now)
        assert isinstance(report, Report) and report.running.role is Role.INCUMBENT
        assert report.running.config == report.running.incumbent


@LAWS
@given(st.sampled_from(BEGINNINGS), HAPPENINGS)
def test_a_plan_made_again_on_its_own_output_settles_and_counts_nothing_twice(
    phase: Phase, happenings: list[Happening]
) -> None:
    run = begun(phase)
    happen(run, happenings, lambda seen, decided: None)
    seen, written = run.seen(), 0
    for _ in range(8):
        decided = plan(seen)
        experiment = decided.experiment or seen.experiment
        _has_no_row_twice(experiment)
        if decided.status == seen.policy.status and decided.experiment is None:
            break
        written += 1
        seen = replace(
            seen,
            policy=replace(seen.policy, status=decided.status),
            experiment=experiment if decided.status.experiment else None,
            commands=tuple(wish for wish in seen.commands if wish not in decided.done),
        )
    assert written < 8, "it never settles"
    assert plan(seen).events == () or seen.experiment is None


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 3), st.sampled_from([0.06, 0.0, -0.06]), st.sampled_from([5.0, 10.0, 20.0]))
def test_every_undisturbed_experiment_ends_and_replays(seed: int, gain: float, tick: float) -> None:
    run = loop(gaining(gain), seed=seed, tick=tick, spec=spec(settings=RESTED))
    run.until_ended(limit=1500)
    assert replay(run.experiment).differences == ()
    assert run.outcome() in {
        "Promoted(Superior)",
        "Rejected(HarmObjective)",
        "Inconclusive(MaxPairs)",
    }
    assert not run.exposed() and not run.refusals
