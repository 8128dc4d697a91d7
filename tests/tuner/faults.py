"""Everything that may happen to a pool, its policy and the control plane, and how all of it ends."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from kvtune_api.knobs import Knob
from kvtune_api.names import Reason
from kvtune_api.policy import Mode
from kvtune_api.units import Duration
from kvtune_tuner.model import Hold, Leaving, Limits, PoolSeen, Verb
from kvtune_tuner.plan import plan
from kvtune_tuner.sli import Missing, MissingReason
from tests.fakes.leaving import going, not_ready, rolled
from tests.fakes.responses import Surface
from tests.tuner.loop import Loop
from tests.tuner.specs import QUICK, START, gaining, spec

RESTED = replace(QUICK, cooldown=Duration("10m"), approval_timeout=Duration("10m"))
"""Settings with which a policy comes to rest within a test."""

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
