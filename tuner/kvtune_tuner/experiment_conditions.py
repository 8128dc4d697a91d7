"""Say in conditions where an experiment stands: Running, Decided, Exposed. Pure.

Derived from the record alone, with the record's own times, so whoever stores an experiment may write them and
they change exactly when the record does.
"""

from datetime import datetime

from kvtune_api.evidence import ExperimentCondition
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.names import ExperimentConditionType, Outcome, Phase
from kvtune_api.status import Truth
from kvtune_tuner.draft import MESSAGE_LIMIT, clock_time, moment
from kvtune_tuner.switching import place

UNDECIDED = "Undecided"
NEVER_EXPOSED = "NotExposed"
LATER = "Restored"


def experiment_conditions(experiment: KVCacheExperiment) -> tuple[ExperimentCondition, ...]:
    """The conditions of an experiment, in a fixed order."""
    return (_running(experiment), _decided(experiment), _exposed(experiment))


def _running(experiment: KVCacheExperiment) -> ExperimentCondition:
    record = experiment.status
    if record.ended_at is not None:
        text = f"ended after {record.ended_at.timestamp() - record.started_at:.0f} s: {_outcome(experiment)}"
        reason, since = str(record.reason or record.outcome), record.ended_at
        return _condition(experiment, ExperimentConditionType.RUNNING, Truth.FALSE, reason, text, since)
    since = moment(record.started_at)
    return _condition(
        experiment, ExperimentConditionType.RUNNING, Truth.TRUE, str(record.phase), _doing(experiment), since
    )


def _doing(experiment: KVCacheExperiment) -> str:
    """What happens now, with the times that are written down for it."""
    record = experiment.status
    by = f"; the phase {record.phase} ends by {clock_time(record.deadline)}" if record.deadline else ""
    epoch = record.epoch
    if epoch is not None and record.phase in (Phase.RUN_IN, Phase.WASHOUT, Phase.MEASURING):
        bounds = f"{clock_time(epoch.measure_from)} to {clock_time(epoch.measure_to)}"
        return f"{place(epoch)} is measured from {bounds}{by}"
    if record.phase is Phase.PROMOTING:
        return f"the winner goes to {record.promoted_agents} agents{by}"
    if record.phase is Phase.WATCHING and record.watch is not None:
        over, asked = len(record.watch.differences), len(record.watch.windows)
        return f"{over} of {asked} windows of the watch are over, holdback {record.watch.holdback}{by}"
    return f"{record.phase}{by}"


def _decided(experiment: KVCacheExperiment) -> ExperimentCondition:
    record, kind = experiment.status, ExperimentConditionType.DECIDED
    if record.outcome is None:
        since = moment(record.started_at)
        return _condition(experiment, kind, Truth.FALSE, UNDECIDED, _figures(experiment), since)
    text = f"{_outcome(experiment)}; {_figures(experiment)}"
    at = moment(record.decided_at) if record.decided_at is not None else record.ended_at
    since = at or moment(record.phase_since)
    return _condition(experiment, kind, Truth.TRUE, str(record.reason or record.outcome), text, since)


def _outcome(experiment: KVCacheExperiment) -> str:
    record = experiment.status
    text = f"{record.outcome}({record.reason})"
    kept = "" if record.outcome is Outcome.PROMOTED else "; the incumbent is kept"
    return f"{text}: {record.message}{kept}"[: MESSAGE_LIMIT // 2]


def _figures(experiment: KVCacheExperiment) -> str:
    """Effect, interval, e-value against its threshold, Deltas."""
    found, spec = experiment.status.evidence, experiment.spec
    if found.effect is None or found.e_value is None:
        return f"0 of at most {spec.max_pairs} Deltas judged"
    interval = f" in [{found.interval[0]:+.4f}, {found.interval[1]:+.4f}]" if found.interval else ""
    guards = "".join(f", {name} {value:+.4f}" for name, value in sorted(found.guardrails.items()))
    return (
        f"effect {found.effect:+.4f}{interval}, e-value {found.e_value:.3g} against "
        f"{found.threshold or 1.0 / spec.policy_spec.experiment.alpha:g}, "
        f"{found.deltas} of at most {spec.max_pairs} Deltas{guards}"
    )


def _exposed(experiment: KVCacheExperiment) -> ExperimentCondition:
    record, kind = experiment.status, ExperimentConditionType.EXPOSED
    since = moment(record.started_at if record.exposed_changed_at is None else record.exposed_changed_at)
    if record.exposed:
        return _condition(experiment, kind, Truth.TRUE, str(record.phase), _candidates(experiment), since)
    never = record.exposed_changed_at is None
    text = "no agent has run the candidate" if never else "no agent is to run the candidate any more"
    if record.outcome is Outcome.PROMOTED and not never:
        text = "the candidate is the incumbent now"
    return _condition(experiment, kind, Truth.FALSE, NEVER_EXPOSED if never else LATER, text, since)


def _candidates(experiment: KVCacheExperiment) -> str:
    record, pairs = experiment.status, len(experiment.spec.pairs)
    match record.phase:
        case Phase.PROMOTING | Phase.WATCHING:
            holdback = record.watch.holdback if record.watch else "none"
            return f"up to {record.promoted_agents} agents run the winner under a lease, holdback {holdback}"
        case Phase.ROLLING_BACK:
            return f"the incumbent is being restored, at the latest by {clock_time(record.deadline)}"
        case _:
            return f"one agent of each of {pairs} pairs runs the candidate under a lease"


def _condition(
    experiment: KVCacheExperiment,
    kind: ExperimentConditionType,
    status: Truth,
    reason: str,
    message: str,
    since: datetime,
) -> ExperimentCondition:
    return ExperimentCondition(
        type=kind,
        status=status,
        reason=reason,
        message=message[:MESSAGE_LIMIT],
        last_transition_time=since,
        observed_generation=experiment.metadata.generation or 1,
    )
