"""The values that `plan` takes and gives: what was seen, what is to be done. Shared with the shell."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.knobs import CacheConfig
from kvtune_api.names import Reason
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import PolicyStatus
from kvtune_api.wire import Counters, Push, Report
from kvtune_tuner.sli import Missing


class Verb(StrEnum):
    """What a user may ask of a running control plane."""

    ABORT = "abort"
    PAUSE = "pause"
    RESUME = "resume"
    APPROVE = "approve"
    TRY = "try"
    RESTORE = "restore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One wish of a user.

    `target` names an experiment (abort, approve), or is empty for the running one; an agent (restore), or is
    empty for all.
    """

    id: str
    verb: Verb
    target: str = ""
    config: CacheConfig | None = None
    """What to try (try): knobs that are not set stay as the incumbent has them."""


class EventType(StrEnum):
    """How an event is shown."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something a user should know, with a machine reason and a message with numbers."""

    type: EventType
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSeen:
    """One agent of the pool in this tick: its report, or why there is none."""

    name: str
    report: Report | None
    trouble: str = ""


class Departure(StrEnum):
    """Why an agent's windows would not count."""

    GOING = "Going"
    """Its pod or node goes away: deletion, eviction, drain. Silence is then nobody's fault."""

    ROLLOUT = "Rollout"
    """A newer revision of its pod is being rolled out: it will be replaced."""

    NOT_READY = "NotReady"
    """It gets no traffic, and what it runs may be why: guards go on looking at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """An agent that is about to leave or not ready."""

    kind: Departure
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSeen:
    """What nodes and pods say of a pool, beside the agents that were found."""

    leaving: Mapping[str, Leaving] = field(default_factory=dict)
    """Agents that are about to leave or not ready, by name."""

    contested: Mapping[str, str] = field(default_factory=dict)
    """Agents that the selector selects too, but that belong to an older policy (its name)."""

    reason: Reason | None = None
    """Why there are fewer agents than the selector asks for: NoNodes, NoPods, NoPort, PodsNotReady, ..."""

    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalls:
    """Profile samples of one agent in one window, by what they waited for."""

    load: float
    store: float
    evict: float
    total: float

    @property
    def share(self) -> float | None:
        """Stalled samples / all samples; None without samples."""
        return (self.load + self.store + self.evict) / self.total if self.total > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Why something is not allowed."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the control plane allows a policy now, whatever the policy says."""

    no_start: Hold | None = None
    """Why no experiment may start: a freeze window, too many experiments elsewhere, the kill switch."""

    no_experiment: Hold | None = None
    """Why a running experiment must end: a freeze window, the kill switch."""

    exposed_share: float = 1.0
    """At most this share of the agents runs an unproven candidate at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Everything that one step of one policy may look at. Nothing else enters a decision."""

    now: datetime
    """The control plane's (scaled) clock, aware."""

    policy: KVCachePolicy
    experiment: KVCacheExperiment | None
    """The running experiment, if status names one."""

    agents: tuple[AgentSeen, ...]
    """Sorted by name."""

    samples: Mapping[float, Mapping[str, Counters | Missing]]
    """Counters by moment (engine seconds) and agent: the moments that `needs` asked for."""

    newest: Mapping[str, Counters | Missing] = field(default_factory=dict)
    commands: tuple[Command, ...] = ()
    token: int = 0
    """This control plane's fencing token."""

    fenced: bool = False
    """True when an agent has refused our token, and another control plane may have taken over."""

    refusing: tuple[str, ...] = ()
    """Agents that refuse our token although we are in charge: nothing is pushed to them. Sorted."""

    ends_at: datetime | None = None
    """When the control plane is to stop (a demo's bound): no experiment starts that cannot end by then."""

    speed: float = 1.0
    """Scaled seconds per wall second; leases count wall seconds."""

    tick_seconds: float = 5.0
    """Scaled seconds between ticks."""

    shutdown: bool = False
    """True when the control plane is being stopped: end the experiment, restore the incumbents."""

    invalid: str = ""
    """What is wrong with the policy's spec as stored; `policy` then holds the running experiment's spec."""

    pool: PoolSeen = PoolSeen()
    limits: Limits = Limits()
    stalls: Mapping[tuple[float, float], Mapping[str, Stalls | Missing]] = field(default_factory=dict)
    """Profile samples by window (engine seconds) and agent; empty where no profiles are configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do: statuses to write (before the pushes), pushes, events, commands carried out."""

    status: PolicyStatus
    experiment: KVCacheExperiment | None
    """The experiment to create or update; None when there is nothing to write."""

    pushes: Mapping[str, Push]
    events: tuple[Event, ...] = ()
    done: tuple[Command, ...] = ()
    restores: tuple[str, ...] = ()
    """Agents to ask to run their eviction policy again after a fallback to LRU."""
