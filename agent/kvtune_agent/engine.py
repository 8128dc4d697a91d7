"""What an agent needs of the engine beside it, as a Protocol.

Implemented by `engines/`. An engine keeps its counters at every multiple of 5 s of its clock and never
changes a value that it has once given for a time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from kvtune_api.knobs import CacheConfig
from kvtune_api.wire import (
    Counters,
    Fallback,
    FallbackRules,
    Geometry,
    Histogram,
    KnobSupport,
    Load,
    ReuseAges,
)


class Missed(StrEnum):
    """Why there are no counters for a time."""

    NOT_YET = "NotYet"
    BOUND_MISSED = "BoundMissed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfKind:
    """Counters of the requests of one kind, as clients number them; 0: they did not say."""

    kind: int
    requests: float
    prompt_tokens: float
    hit_tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """An engine's counters at one moment: those of the wire, and what else its metrics show.

    A counter that an engine does not keep is None or absent. `evicted_blocks` is by reason.
    """

    counters: Counters
    device_hit_tokens: float | None = None
    lower_hit_tokens: float | None = None
    evicted_blocks: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    stall_seconds: float | None = None
    queue_seconds: Histogram | None = None
    kinds: tuple[OfKind, ...] = ()
    """Of the kinds that were seen."""


class Engine(Protocol):
    """An engine with a cache that can be configured while it runs."""

    @property
    def name(self) -> str:
        """Kind of engine."""
        ...

    @property
    def version(self) -> str:
        """Version of the engine; agents of one experiment must agree on it."""
        ...

    @property
    def model_name(self) -> str:
        """The label `model_name` of vLLM's metrics."""
        ...

    @property
    def geometry(self) -> Geometry | None:
        """Block sizes."""
        ...

    @property
    def supports(self) -> tuple[KnobSupport, ...]:
        """The knobs it has."""
        ...

    @property
    def started_at(self) -> float:
        """When its counters began, engine seconds."""
        ...

    def check(self, config: CacheConfig) -> None:
        """Raise `SpecError` with every value that this engine cannot run. Changes nothing."""
        ...

    def apply(self, config: CacheConfig) -> None:
        """Run a checked configuration from now on; an unset knob goes back to the engine's own value."""
        ...

    def follow(self) -> None:
        """Notice that time has passed."""
        ...

    def newest(self) -> Snapshot | None:
        """Counters at the newest closed grid time; None before the first."""
        ...

    def at(self, at: float) -> Snapshot | Missed:
        """Counters at a multiple of 5 s of the engine's clock."""
        ...

    def load(self) -> Load:
        """Request and hit rate of the last minutes."""
        ...

    def reuse(self) -> ReuseAges | None:
        """Ages at re-touch over the last hour; None where there is nothing to say."""
        ...

    @property
    def fallback(self) -> Fallback | None:
        """Why it evicts by LRU in place of the policy asked for; None while it does not."""
        ...

    @property
    def fallbacks(self) -> Mapping[str, int]:
        """How often it has fallen back to LRU, by reason; empty where it never did."""
        ...

    def fall_back_by(self, rules: FallbackRules | None) -> None:
        """Evict by LRU in place of the policy asked for as these rules say; None: as its own do."""
        ...

    def restore(self) -> bool:
        """Run the policy asked for again after a fallback; False where it runs already."""
        ...

    def learned(self) -> Mapping[str, object] | None:
        """What its eviction policy has learned, as JSON can hold it; None where it learns nothing."""
        ...

    def lessons(self) -> Mapping[str, object] | None:
        """What a policy that learns has learned here, also while another one runs; None: nothing."""
        ...

    def teach(self, lessons: Mapping[str, object]) -> None:
        """Let that policy begin with what an earlier process has told. Raises ValueError with the field."""
        ...

    def host_used_bytes(self) -> float | None:
        """Bytes resident in the host tier."""
        ...
