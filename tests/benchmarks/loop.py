"""Drive the real `plan` over a simulated pool, from one moment in which something can change to the next.

What the reconciler does, without HTTP and files: gather the moments that `needs` names, plan, push. Between
two ticks it jumps, but never over a bound that the status has recorded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import PolicyStatus
from kvtune_api.wire import Counters, Push, Report
from kvtune_operator.ports import Accepted, Refused, Unreachable
from kvtune_tuner.model import AgentSeen, Plan, Seen
from kvtune_tuner.needs import exact, recent
from kvtune_tuner.plan import plan
from kvtune_tuner.sli import Missing

SPEED = 60.0
"""As in the demo; it also makes leases (30 s of wall clock) longer than any jump."""

AFTER_SWITCH_SECONDS = 5.0


class SimulatedPool(Protocol):
    """What the loop needs of a pool; times are engine seconds."""

    def names(self) -> tuple[str, ...]:
        """All agents, sorted."""
        ...

    def report(self, name: str, now: float) -> Report | Unreachable:
        """What `GET /v1/report` answers."""
        ...

    def push(self, name: str, push: Push, now: float) -> Accepted | Refused | Unreachable:
        """What `PUT /v1/config` answers."""
        ...

    def newest(self, name: str, now: float) -> Counters | Missing:
        """The counters at the newest grid time."""
        ...

    def counters(self, name: str, at: float, now: float) -> Counters | Missing:
        """The counters at a grid time that has passed."""
        ...


@dataclass(slots=True, kw_only=True)
class Loop:
    """One policy's control loop on a simulated pool."""

    pool: SimulatedPool
    policy: KVCachePolicy
    now: float
    tick_seconds: float = 30.0
    experiments: dict[str, KVCacheExperiment] = field(default_factory=dict)
    ended: list[KVCacheExperiment] = field(default_factory=list)
    """Experiments that are over, in order."""

    @property
    def status(self) -> PolicyStatus:
        """The policy's status as written last."""
        return self.policy.status or PolicyStatus()

    @property
    def running(self) -> KVCacheExperiment | None:
        """The running experiment."""
        name = self.status.experiment
        return self.experiments.get(name) if name else None

    def step(self) -> Plan:
        """Gather, plan, act once, and move to the next moment that matters."""
        before = self.running
        decided = plan(self._seen(before))
        if decided.experiment is not None:
            self.experiments[decided.experiment.metadata.name] = decided.experiment
        self.policy = replace(self.policy, status=decided.status)
        for name, push in decided.pushes.items():
            answer = self.pool.push(name, push, self.now)
            if not isinstance(answer, Accepted):
                raise RuntimeError(f"{name}: {answer.message}")
        if before is not None and decided.status.experiment is None:
            self.ended.append(self.experiments.pop(before.metadata.name))
        self.now = self._next(pushed=bool(decided.pushes))
        return decided

    def _seen(self, experiment: KVCacheExperiment | None) -> Seen:
        names, pool, now = self.pool.names(), self.pool, self.now
        reports = {name: pool.report(name, now) for name in names}
        newest = {name: pool.newest(name, now) for name in names}
        known = [found.at for found in newest.values() if isinstance(found, Counters)]
        wanted = set(exact(experiment, now))
        if known:
            wanted |= set(recent(self.policy.spec, experiment, min(known)))
        return Seen(
            now=datetime.fromtimestamp(now, tz=UTC),
            policy=self.policy,
            experiment=experiment,
            agents=tuple(_agent(name, reports[name]) for name in names),
            samples={at: self._samples(names, at) for at in sorted(wanted)},
            newest=newest,
            token=1,
            tick_seconds=self.tick_seconds,
            speed=SPEED,
        )

    def _samples(self, names: tuple[str, ...], at: float) -> Mapping[str, Counters | Missing]:
        return {name: self.pool.counters(name, at, self.now) for name in names}

    def _next(self, *, pushed: bool) -> float:
        tick = AFTER_SWITCH_SECONDS if pushed else self.tick_seconds
        bounds = [self.now + tick]
        experiment = self.running
        if experiment is not None:
            record = experiment.status
            if record.epoch is not None:
                bounds += [record.epoch.measure_from, record.epoch.measure_to]
            if record.watch is not None:
                bounds += [end for _, end in record.watch.windows]
        return min(bound for bound in bounds if bound > self.now)


def _agent(name: str, report: Report | Unreachable) -> AgentSeen:
    if isinstance(report, Report):
        return AgentSeen(name=name, report=report)
    return AgentSeen(name=name, report=None, trouble=report.message)
