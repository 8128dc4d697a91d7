"""Laws of the plan that hold whatever happens to the pool: over random schedules of faults.

Each example starts from a run that has come to some phase, lets faults happen, then lets the world
heal, and looks at every tick.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache

from hypothesis import HealthCheck, given, settings
from hypothesis import Phase as HypothesisPhase
from hypothesis import strategies as st

from kvtune_api import codec
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.knobs import Knob, point
from kvtune_api.names import Phase, Reason
from kvtune_api.policy import Mode
from kvtune_api.status import PolicyStatus
from kvtune_api.units import Duration
from kvtune_api.wire import Report, Role
from kvtune_tuner.model import Hold, Leaving, Limits, Plan, PoolSeen, Seen, Verb
from kvtune_tuner.phases import EXPOSED, RESTING
from kvtune_tuner.plan import plan
from kvtune_tuner.replay import replay
from kvtune_tuner.sli import Missing, MissingReason
from tests.fakes.leaving import going, not_ready, rolled
from tests.fakes.responses import Surface
from tests.tuner.loop import LEASE_SECONDS, QUICK, START, Loop, gaining, key, loop, spec

RESTED = replace(QUICK, cooldown=Duration("10m"), approval_timeout=Duration("10m"))
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


Fault = Callable[[Loop, str], None]


def _down(run: Loop, name: str) -> None:
    run.pool.agents[name].down = True


def _slow(run: Loop, name: str) -> None:
    run.pool.agents[name].slow = True


def _nan(run: Loop, name: str) -> None:
    run.pool.agents[name].nan = True


def _missing(run: Loop, name: str) -> None:
    run.pool.agents[name].missing = Missing(reason=MissingReason.AMBIGUOUS, message=f"{name}: 2 series")


def _refuses(run: Loop, name: str) -> None:
    run.pool.agents[name].refuses_token = True


def _shrugs(run: Loop, name: str) -> None:
    run.pool.agents[name].shrug = True


def _lacks(run: Loop, name: str) -> None:
    run.pool.agents[name].unsupported = frozenset({Knob.CACHE_TTL})


def _restarts(run: Loop, name: str) -> None:
    run.pool.restart(name, run.now)


def _leaves(run: Loop, name: str) -> None:
    if len(run.pool.agents) > 2:
        run.pool.leave(name)


def _joins(run: Loop, name: str) -> None:
    newcomer = f"http://127.0.0.1:{8000 + len(run.pool.agents)}"
    if newcomer not in run.pool.agents:
        run.pool.join(newcomer, config=replace(START, cache_ttl=Duration("100s")), now=run.now - 100)


def _upgraded(run: Loop, name: str) -> None:
    run.pool.agents[name].version = "0.2.0"


def _silent(run: Loop, name: str) -> None:
    run.pool.set_traffic(run.now, request_rate=0.0)


def _busy(run: Loop, name: str) -> None:
    run.pool.set_traffic(run.now, request_rate=5.0)


def _errors(run: Loop, name: str) -> None:
    run.pool.set_errors(run.now, per_second=3.0, name=name)


def _harmful(run: Loop, name: str) -> None:
    run.pool.set_surface(run.now, gaining(-0.25, -0.6))


def _aborts(run: Loop, name: str) -> None:
    run.wish(Verb.ABORT)


def _pauses(run: Loop, name: str) -> None:
    run.wish(Verb.PAUSE)


def _resumes(run: Loop, name: str) -> None:
    run.wish(Verb.RESUME)


def _approves(run: Loop, name: str) -> None:
    run.wish(Verb.APPROVE, run.status.experiment or "")


def _tries(run: Loop, name: str) -> None:
    run.wish(Verb.TRY, config=replace(START, cache_ttl=Duration("100s")))


def _edits(run: Loop, name: str) -> None:
    run.edit(spec(Mode.AUTO, replace(RESTED, alpha=0.01)))


def _observes(run: Loop, name: str) -> None:
    run.edit(spec(Mode.OBSERVE, RESTED))


def _forgets(run: Loop, name: str) -> None:
    run.experiments.pop(run.status.experiment or "", None)


def _killed(run: Loop, name: str) -> None:
    run.away(15.0)


def _killed_for_long(run: Loop, name: str) -> None:
    run.away(100.0)


def _leaving(run: Loop, name: str, leaving: Leaving) -> None:
    run.pods = replace(run.pods, leaving={**run.pods.leaving, name: leaving})


def _drained(run: Loop, name: str) -> None:
    _leaving(run, name, going("node node-1 is cordoned"))


def _unready(run: Loop, name: str) -> None:
    _leaving(run, name, not_ready())
    run.pool.agents[name].down = True


def _replaced(run: Loop, name: str) -> None:
    """A rollout has replaced one agent by a pod of another name."""
    _joins(run, name)
    _leaves(run, name)
    if name in run.pool.agents:
        _leaving(run, name, rolled())


def _contested(run: Loop, name: str) -> None:
    run.pods = replace(run.pods, contested={"agent-of-another": "older"})


def _no_pods(run: Loop, name: str) -> None:
    run.pods = replace(run.pods, reason=Reason.PODS_NOT_READY, message="2 of 6 pods are ready")


def _no_start(run: Loop, name: str) -> None:
    run.limits = Limits(no_start=Hold(reason=Reason.CAPPED, message="10 experiments run already"))


def _frozen(run: Loop, name: str) -> None:
    hold = Hold(reason=Reason.FROZEN, message="freeze window weekend")
    run.limits = Limits(no_start=hold, no_experiment=hold)


def _capped(run: Loop, name: str) -> None:
    run.limits = Limits(exposed_share=0.2)


def _invalid(run: Loop, name: str) -> None:
    if run.status.experiment is not None:  # else the shell does not plan at all
        run.invalid = "spec.knobs: at least one knob is needed"


def _experiment_deleted(run: Loop, name: str) -> None:
    found = run.experiments.get(run.status.experiment or "")
    if found is not None:
        gone = replace(found.metadata, deletion_timestamp="2030-01-01T00:10:00Z")
        run.experiments[found.metadata.name] = replace(found, metadata=gone)


def _half_written(run: Loop, name: str) -> None:
    decided = plan(run.seen())
    if decided.experiment is not None:
        run.experiments[decided.experiment.metadata.name] = decided.experiment


FAULTS: tuple[Fault, ...] = (
    _down, _slow, _nan, _missing, _refuses, _shrugs, _lacks, _restarts, _leaves, _joins, _upgraded, _silent,
    _busy, _errors, _harmful, _aborts, _pauses, _resumes, _approves, _tries, _edits, _observes, _forgets,
    _killed, _killed_for_long, _half_written, _drained, _unready, _replaced, _contested, _no_pods, _no_start,
    _frozen, _capped, _invalid, _experiment_deleted,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Happening:
    """One fault at one agent, and for how many ticks the world stays like that."""

    fault: Fault
    agent: int
    ticks: int


HAPPENINGS = st.lists(
    st.builds(Happening, st.sampled_from(FAULTS), st.integers(0, 9), st.integers(0, 12)),
    min_size=1,
    max_size=6,
)
LAWS = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    phases=(HypothesisPhase.explicit, HypothesisPhase.generate, HypothesisPhase.shrink),
    suppress_health_check=[HealthCheck.too_slow],
)


def heal(run: Loop) -> None:
    """Let all faults stop."""
    run.pods, run.limits, run.invalid = PoolSeen(), Limits(), ""
    for agent in run.pool.agents.values():
        agent.down = agent.slow = agent.nan = agent.refuses_token = agent.shrug = False
        agent.missing, agent.version = None, None
        agent.unsupported = frozenset()
    run.pool.set_traffic(run.now, request_rate=5.0)
    healthy: Surface = gaining()
    run.pool.set_surface(run.now, healthy)
    for name in run.pool.names():
        run.pool.set_errors(run.now, per_second=0.0, name=name)


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
