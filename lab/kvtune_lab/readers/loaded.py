"""What readers give: requests as arrays with what else the trace tells, or arrivals alone.

Missing is not zero: what a format does not tell of is None, or -1 in an array, and stands in the notes. numpy
is imported where it is needed: a small trace is read and served in less time than that takes.
"""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from kvtune_cache.requests import Requests

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Whole: TypeAlias = "NDArray[np.int32]"
Reals: TypeAlias = "NDArray[np.float64]"


class Format(StrEnum):
    """The formats that are read, each known by its content."""

    MOONCAKE = "mooncake"
    BAILIAN = "bailian"
    RAGPULSE = "ragpulse"
    AGENTIC = "agentic"
    AZURE = "azure-llm"
    SERVEGEN = "servegen"
    KV_EVENTS = "vllm-kv-events"
    RECORDING = "kvtune-recording"


LACKS: Mapping[Format, tuple[str, ...]] = MappingProxyType(
    {
        Format.MOONCAKE: ("sessions, turns and request types (turns are inferred from shared prefixes)",),
        Format.BAILIAN: (),
        Format.RAGPULSE: ("request types (stats are also told by part of the prompt)",),
        Format.AGENTIC: ("prefixes that sessions share: block ids are local to a session",),
        Format.AZURE: ("block ids: no reuse, hit rate, working set or capacity",),
        Format.SERVEGEN: (
            "single requests: only each client's rate in steps of 10 minutes",
            "block ids: no reuse, hit rate, working set or capacity",
        ),
        Format.KV_EVENTS: (
            "requests whose blocks were all cached: they store nothing, so reuse is a lower bound",
            "answers' lengths, sessions, request types",
        ),
        Format.RECORDING: (),
    }
)
"""What a format cannot tell of."""

UNKNOWN = -1
"""In arrays: not known."""

MOST_KINDS = 5
"""Request types that policies tell apart; the last one stands for all further ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Requests in the order of arrival, their blocks numbered by first appearance."""

    requests: Requests
    """Arrays, of numpy or of the standard library, which `np.asarray` takes as they are: starts int64, blocks
    int32, tokens int32, times float64 from 0, outputs int32, kinds uint8, hints float64."""

    block_tokens: int
    """Tokens of a full block; the most of a block where they differ (RAGPulse)."""

    format: Format
    sessions: "Whole | None"
    """Of each request the number of its session, by first appearance; -1 where it has none."""

    turns: "Whole | None" = None
    """Of each request its turn from 1, where the trace says so."""

    kind_names: tuple[str, ...] = ()
    """The request types 1, 2, ...; 0 is not known."""

    parts: "NDArray[np.uint8] | None" = None
    """Of each distinct block the part of the prompt it belongs to (RAGPulse)."""

    part_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: int = 0
    """Bad rows that were left out."""

    @property
    def distinct_blocks(self) -> int:
        """Distinct blocks, at least 1."""
        blocks = self.requests.blocks
        return 1 + (max(blocks) if isinstance(blocks, array) else int(cast(Any, blocks).max()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """When requests arrived and how long they were."""

    times: Reals
    """Seconds from the first one, never going back."""

    prompts: Whole
    """Tokens of each prompt."""

    outputs: Whole
    format: Format
    notes: tuple[str, ...] = ()
    skipped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRates:
    """Rates of clients over time: one entry of each array is one client in one step; all of one length."""

    times: Reals
    """Start of the step, seconds."""

    rates: Reals
    """Requests per second."""

    variations: Reals
    """Coefficient of variation of the gaps between requests."""

    clients: Whole
    """Number of the client, by first appearance."""

    step_seconds: float
    format: Format
    notes: tuple[str, ...] = ()
    skipped: int = 0


def tokens_when_warm(requests: Requests) -> bool:
    """Whether the last half of the requests, when a cache is warm, holds a token: else it has no hit rate."""
    return any(requests.tokens[requests.starts[(len(requests.starts) - 1) // 2] :])


def as_lists(requests: Requests) -> Requests:
    """Copy requests into lists, for the core as it runs on plain ones."""
    return Requests(*(part if isinstance(part, list) else cast(Any, part).tolist() for part in requests))


def as_requests(
    starts: Any, blocks: Any, tokens: Any, times: Any, outputs: Any, kinds: Any, hints: Any = None
) -> Requests:
    """Make `Requests` of the element types that compiled callers expect; arrays of these are not copied.

    Without hints none is known.
    """
    import numpy as np

    return Requests(
        np.asarray(starts, np.int64),  # type: ignore[arg-type]  # an array serves as a sequence of ints
        np.asarray(blocks, np.int32),  # type: ignore[arg-type]  # the same
        np.asarray(tokens, np.int32),  # type: ignore[arg-type]  # the same
        np.asarray(times, np.float64),  # type: ignore[arg-type]  # of floats
        np.asarray(outputs, np.int32),  # type: ignore[arg-type]  # of ints
        np.asarray(kinds, np.uint8),  # type: ignore[arg-type]  # of ints
        np.zeros(len(times)) if hints is None else np.asarray(hints, np.float64),  # type: ignore[arg-type]  # of floats
    )
