"""The control plane's own metrics, set from what it writes and asks. Names stand in kvtune_api.names."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.names import (
    LABEL_OUTCOME,
    LABEL_PHASE,
    LABEL_POLICY,
    LABEL_REASON,
    LABEL_SLI,
    Metric,
    Phase,
)
from kvtune_api.status import PolicyStatus

TICK_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Telemetry:
    """Every metric of one control plane, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        new = self.registry
        policy = [LABEL_POLICY]
        self._tick = Histogram(
            Metric.CONTROL_TICK, "Wall time of one step.", registry=new, buckets=TICK_BUCKETS
        )
        self._failed = Counter(
            Metric.CONTROL_TICKS_FAILED, "Calls of a port that failed.", [LABEL_REASON], registry=new
        )
        self._phase = Gauge(
            Metric.CONTROL_PHASE, "1 for the phase a policy is in.", [LABEL_POLICY, LABEL_PHASE], registry=new
        )
        slis = [LABEL_POLICY, LABEL_SLI]
        self._sli = Gauge(Metric.CONTROL_SLI, "Service level indicators.", slis, registry=new)
        self._target = Gauge(Metric.CONTROL_TARGET, "Their targets.", slis, registry=new)
        outcomes = [LABEL_POLICY, LABEL_OUTCOME, LABEL_REASON]
        self._ended = Counter(Metric.CONTROL_EXPERIMENTS, "Experiments ended.", outcomes, registry=new)
        self._e_value = Gauge(Metric.CONTROL_E_VALUE, "E-value of superiority.", policy, registry=new)
        self._deltas = Gauge(Metric.CONTROL_DELTAS, "Deltas judged so far.", policy, registry=new)
        self._pushes = Counter(Metric.CONTROL_PUSHES, "Pushes by outcome.", [LABEL_OUTCOME], registry=new)
        self._missing = Counter(Metric.CONTROL_MISSING, "Missing samples.", [LABEL_REASON], registry=new)
        self._last_ended: dict[str, str] = {}
        """By policy: its experiments follow one another, so one name each is enough, for months."""

    def tick(self, seconds: float) -> None:
        """Count one step and its wall time."""
        self._tick.observe(seconds)

    def failed(self, reason: str) -> None:
        """Count a call that failed."""
        self._failed.labels(reason).inc()

    def pushed(self, outcomes: Iterable[str]) -> None:
        """Count pushes by how they were answered."""
        for outcome in outcomes:
            self._pushes.labels(outcome).inc()

    def missing(self, reasons: Iterable[str]) -> None:
        """Count samples that are missing."""
        for reason in reasons:
            self._missing.labels(reason).inc()

    def status(self, policy: str, status: PolicyStatus) -> None:
        """Show a policy's status. What has no value has no series."""
        for phase in Phase:
            self._phase.labels(policy, phase).set(phase is status.phase)
        for sli in status.slis:
            _set(self._sli, (policy, sli.name), sli.value)
            _set(self._target, (policy, sli.name), sli.target)
        if status.experiment is None:
            _set(self._e_value, (policy,), None)
            _set(self._deltas, (policy,), None)

    def experiment(self, policy: str, experiment: KVCacheExperiment) -> None:
        """Show the running experiment's evidence, or count an ended one (once)."""
        status, name = experiment.status, experiment.metadata.name
        if status.outcome is None:
            _set(self._e_value, (policy,), status.evidence.e_value)
            _set(self._deltas, (policy,), float(status.evidence.deltas))
        elif name != self._last_ended.get(policy):
            self._last_ended[policy] = name
            self._ended.labels(policy, status.outcome, status.reason or "").inc()

    def gone(self, policy: str) -> None:
        """Drop the state of a policy that is gone; what was counted stays."""
        self._last_ended.pop(policy, None)
        for gauge in (self._phase, self._sli, self._target, self._e_value, self._deltas):
            for sample in tuple(family for metric in gauge.collect() for family in metric.samples):
                if sample.labels.get(LABEL_POLICY) == policy:
                    gauge.remove(*sample.labels.values())


def _set(gauge: Gauge, labels: tuple[str, ...], value: float | None) -> None:
    if value is not None:
        gauge.labels(*labels).set(value)
        return
    try:
        gauge.remove(*labels)
    except KeyError:
        return
