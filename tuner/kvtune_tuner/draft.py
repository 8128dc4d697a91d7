"""The plan while it is being made: what was seen, and the statuses as they stand so far.

Every rule of the tuner's state machine is a function from a draft to the next draft. Pure.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from kvtune_api.experiment import ExperimentSpec, ExperimentStatus, KVCacheExperiment
from kvtune_api.knobs import CacheConfig, point
from kvtune_api.names import ANNOTATION_APPROVE, ConditionType, Outcome, OutcomeReason, Phase, Reason
from kvtune_api.status import Condition, PolicyStatus, Truth
from kvtune_api.wire import GRID_SECONDS, Counters, Report, Role
from kvtune_tuner.configs import distance
from kvtune_tuner.model import Command, Event, EventType, Seen
from kvtune_tuner.phases import EXPOSED, Turn, after
from kvtune_tuner.sli import CounterSample, Missing, MissingReason, WindowCounts, increase
from kvtune_tuner.space import Space, live_knobs

MESSAGE_LIMIT = 1000
WAITING_LIMIT = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One step of one policy, half made."""

    seen: Seen
    status: PolicyStatus
    experiment: KVCacheExperiment | None
    space: Space
    reports: tuple[Report, ...]
    """Reports of the agents that answered, in name order."""

    names: tuple[str, ...]
    """Names of the agents that answered, in the order of `reports`."""

    by_name: Mapping[str, Report]
    """The same reports by agent, so that a thousand look-ups take a thousand steps."""

    present: frozenset[str]
    """Names of all agents of the pool, whether they answered or not."""

    recent: Mapping[str, WindowCounts | Missing] | None = None
    """Every answering agent's window over the span of the SLIs, made once by `observed`."""

    events: tuple[Event, ...] = ()
    done: tuple[Command, ...] = ()
    restores: tuple[str, ...] = ()
    """Agents that are to run the eviction policy asked for again."""

    @property
    def now_s(self) -> float:
        """Engine seconds."""
        return self.seen.now.timestamp()

    @property
    def live(self) -> KVCacheExperiment:
        """The running experiment; only called where there is one."""
        assert self.experiment is not None, "no experiment is running"
        return self.experiment

    @property
    def ticks(self) -> float:
        """Length of a tick, engine seconds."""
        return self.seen.tick_seconds

    def report(self, agent: str) -> Report | None:
        """The report of an agent, None when it did not answer or is gone."""
        return self.by_name.get(agent)


_WAITS = {
    Phase.PROMOTING: "promoting the winner",
    Phase.WATCHING: "watching the promotion against the holdback",
    Phase.ROLLING_BACK: "restoring the incumbent",
}


def approval_of(experiment: str) -> str:
    """How a winner is approved, standalone and in a cluster."""
    return (
        f"waits for approval: kvtune approve {experiment}, or in a cluster the policy's annotation "
        f"{ANNOTATION_APPROVE}={experiment}"
    )


def grid_up(seconds: float) -> float:
    """The first grid time that is not before `seconds`."""
    return math.ceil(seconds / GRID_SECONDS - 1e-9) * float(GRID_SECONDS)


def moment(seconds: float) -> datetime:
    """Engine seconds as a time."""
    return datetime.fromtimestamp(seconds, tz=UTC)


def wall(draft: Draft, seconds: float) -> float:
    """Wall seconds in engine seconds (leases and HTTP do not scale)."""
    return seconds * draft.seen.speed


def with_event(draft: Draft, reason: Reason, message: str, *, kind: EventType = EventType.NORMAL) -> Draft:
    """Add an event for the user."""
    return replace(
        draft, events=(*draft.events, Event(type=kind, reason=reason, message=message[:MESSAGE_LIMIT]))
    )


def with_warning(draft: Draft, reason: Reason, message: str) -> Draft:
    """Add an event that somebody should look at."""
    return with_event(draft, reason, message, kind=EventType.WARNING)


def with_condition(draft: Draft, kind: ConditionType, status: Truth, reason: Reason, message: str) -> Draft:
    """Set a condition; its transition time moves only when its status changes."""
    generation = draft.seen.policy.metadata.generation or 0
    old = condition(draft.status, kind)
    since = old.last_transition_time if old and old.status == status else draft.seen.now
    new = Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message[:MESSAGE_LIMIT],
        last_transition_time=since,
        observed_generation=generation,
    )
    others = [c for c in draft.status.conditions if c.type != kind]
    conditions = tuple(sorted([*others, new], key=lambda c: str(c.type)))
    return with_status(draft, replace(draft.status, conditions=conditions))


def condition(status: PolicyStatus, kind: ConditionType) -> Condition | None:
    """One condition of a status."""
    return next((c for c in status.conditions if c.type == kind), None)


def with_status(draft: Draft, status: PolicyStatus) -> Draft:
    """Replace the policy's status."""
    return replace(draft, status=status)


def waiting(draft: Draft, why: str) -> Draft:
    """Say why the phase waits, in a line that fits a table; conditions and events have the whole text."""
    short = why if len(why) <= WAITING_LIMIT else why[: WAITING_LIMIT - 3] + "..."
    return with_status(draft, replace(draft.status, waiting_for=short))


def with_record(draft: Draft, record: ExperimentStatus) -> Draft:
    """Replace the experiment's status."""
    return replace(draft, experiment=replace(draft.live, status=record))


def turned(draft: Draft, turn: Turn, *, deadline: float) -> Draft:
    """Move the experiment to the phase that the table names, with the deadline of that phase."""
    record = draft.live.status
    phase = after(record.phase, turn)
    record = replace(record, phase=phase, phase_since=draft.now_s, deadline=deadline)
    exposed = phase in EXPOSED or (phase is Phase.ROLLING_BACK and record.exposed)
    if exposed is not record.exposed:
        record = replace(record, exposed=exposed, exposed_changed_at=draft.now_s)
    return with_record(waiting(draft, _WAITS.get(phase, "")), record)


def ended(draft: Draft, outcome: Outcome, reason: OutcomeReason, message: str) -> Draft:
    """End the experiment: from now on nothing but restoring the incumbent happens to it."""
    record = draft.live.status
    if record.outcome is not None:
        return draft
    lease = draft.live.spec.policy_spec.experiment.lease_duration.seconds
    deadline = draft.now_s + wall(draft, lease) + 6 * draft.ticks
    draft = bumped(turned(draft, Turn.ENDED, deadline=deadline))
    return with_record(
        draft,
        replace(
            draft.live.status,
            outcome=outcome,
            reason=reason,
            message=message[:MESSAGE_LIMIT],
            decided_at=draft.now_s,
        ),
    )


def bumped(draft: Draft) -> Draft:
    """Take the next push generation for a new assignment of configurations to agents."""
    generation = draft.status.push_generation + 1
    draft = with_status(draft, replace(draft.status, push_generation=generation))
    if draft.experiment is not None:
        draft = with_record(draft, replace(draft.live.status, generation=generation))
    return draft


def runs(report: Report, config: CacheConfig) -> bool:
    """Whether an agent runs a configuration: every knob that both have has the value that is set."""
    current, live = point(report.running.config), live_knobs((report,))
    return all(current.get(knob) == value for knob, value in point(config).items() if knob in live)


def runs_candidate(report: Report, spec: ExperimentSpec) -> bool:
    """Whether an agent runs an experiment's candidate; one that lacks a knob that moves never does."""
    moved = {knob for knob, apart in distance(spec.incumbent, spec.candidate).items() if apart > 0.0}
    able = moved <= live_knobs((report,))
    return able and report.running.role is Role.CANDIDATE and runs(report, spec.candidate)


def sample(counters: Counters | Missing | None) -> CounterSample | Missing:
    """An agent's counters as the SLI functions take them."""
    if counters is None:
        return Missing(reason=MissingReason.NO_DATA, message="no sample was taken")
    if isinstance(counters, Missing):
        return counters
    ttft = counters.ttft
    return CounterSample(
        at_s=counters.at,
        started_at_s=counters.started_at,
        requests=counters.requests,
        prompt_tokens=counters.prompt_tokens,
        hit_tokens=counters.hit_tokens,
        eviction_passes=counters.eviction_passes,
        bytes_down=counters.bytes_down,
        errors=counters.errors,
        new_session_roots=counters.new_session_roots,
        ttft_le=(*ttft.bounds, math.inf) if ttft else (),
        ttft_counts=ttft.counts if ttft else (),
    )


def window(draft: Draft, agent: str, start: float, end: float) -> WindowCounts | Missing:
    """What an agent did between two moments for which samples were read."""
    first = sample(draft.seen.samples.get(start, {}).get(agent))
    last = sample(draft.seen.samples.get(end, {}).get(agent))
    if isinstance(first, Missing):
        return first
    if isinstance(last, Missing):
        return last
    if last.at_s <= first.at_s:
        return Missing(
            reason=MissingReason.STALE,
            message=f"newest sample is of {last.at_s:g} s, none after {first.at_s:g} s",
        )
    return increase(first, last)


def clock_time(seconds: float) -> str:
    """Engine seconds as a time of day, for messages that should not change with every tick."""
    return f"{moment(seconds):%H:%M:%S}"


def later(now: datetime, seconds: float) -> datetime:
    """The time some engine seconds later."""
    return now + timedelta(seconds=seconds)
