"""Pack requests into arrays as they come: number blocks by first appearance, check what all formats promise.

Called by every reader that parses single requests. Blocks are prefix-chained: one id always has the same
predecessor, so that a block hits only after all before it. Memory: 4 bytes a reference and 4 a token count,
beside one dictionary entry a distinct block.
"""

from array import array
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

import numpy as np

from kvtune_lab.readers.errors import TraceError
from kvtune_lab.readers.loaded import MOST_KINDS, UNKNOWN, Format, Loaded, as_requests
from kvtune_lab.readers.source import Source

N = TypeVar("N", bound=Hashable)

_NO_BLOCK = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request as a reader has parsed it."""

    time_s: float
    blocks: Sequence[Hashable]
    tokens: Sequence[int]
    """Of each block."""

    output_tokens: int = UNKNOWN
    kind: str = ""
    session: Hashable | None = None
    turn: int = UNKNOWN
    hint: float = 0.0
    """What the client expects of its session, as `Requests.hints`; 0: not known."""


class Packing:
    """Requests so far; add them in the order of the trace, then take the arrays once."""

    def __init__(self, source: Source, *, time_field: str, blocks_field: str) -> None:
        """Name the fields as errors shall."""
        self._source = source
        self._time_field = time_field
        self._blocks_field = blocks_field
        self._numbers: defaultdict[Hashable, int] = defaultdict(count().__next__)
        self._before = array("i")
        self._starts, self._blocks, self._tokens = array("q", [0]), array("i"), array("i")
        self._times, self._outputs, self._kinds = array("d"), array("i"), array("B")
        self._sessions, self._turns, self._hints = array("i"), array("i"), array("d")
        self._session_numbers: dict[Hashable, int] = {}
        self._kind_numbers: dict[str, int] = {}

    def add(self, line: int, row: Row) -> None:
        """Append one request; raises TraceError where time goes back or a block changes its predecessor."""
        if self._times and row.time_s < self._times[-1]:
            problem = f"{row.time_s:.12g} s is before {self._times[-1]:.12g} s, the request before it"
            raise self._source.error(line, self._time_field, problem)
        self._blocks.extend(self._numbered(line, row.blocks))
        self._tokens.extend(row.tokens)
        self._starts.append(len(self._blocks))
        self._times.append(row.time_s)
        self._outputs.append(row.output_tokens)
        self._kinds.append(min(numbered(self._kind_numbers, row.kind) + 1, MOST_KINDS) if row.kind else 0)
        known = row.session is not None
        self._sessions.append(numbered(self._session_numbers, row.session) if known else UNKNOWN)
        self._turns.append(row.turn)
        self._hints.append(row.hint)

    def add_all(self, rows: Iterable[tuple[int, Row]]) -> None:
        """Append requests with their lines; bad ones are skipped as far as they may be."""
        for line, row in rows:
            try:
                self.add(line, row)
            except TraceError as error:
                self._source.skips.take(error)

    def loaded(self, format: Format, *, block_tokens: int, notes: tuple[str, ...] = ()) -> Loaded:
        """Give the arrays; raises TraceError for a trace without any request that has blocks."""
        refuse_empty(self._source, len(self._times), len(self._blocks), self._blocks_field)
        names = tuple(self._kind_numbers)
        if len(names) > MOST_KINDS:
            notes += (f"{len(names)} request types: all but the first {MOST_KINDS - 1} count as one",)
            names = (*names[: MOST_KINDS - 1], "other")
        times = np.frombuffer(self._times, np.float64)
        return Loaded(
            requests=as_requests(
                np.frombuffer(self._starts, np.int64),
                np.frombuffer(self._blocks, np.int32),
                np.frombuffer(self._tokens, np.int32),
                times - times[0],
                np.frombuffer(self._outputs, np.int32),
                np.frombuffer(self._kinds, np.uint8),
                np.frombuffer(self._hints, np.float64),
            ),
            block_tokens=block_tokens,
            format=format,
            sessions=np.frombuffer(self._sessions, np.int32) if self._session_numbers else None,
            turns=_known(np.frombuffer(self._turns, np.int32)),
            kind_names=names,
            notes=notes,
            skipped=self._source.skips.skipped,
        )

    def _numbered(self, line: int, blocks: Sequence[Hashable]) -> list[int]:
        numbers, before = self._numbers, self._before
        known = len(numbers)
        found = list(map(numbers.__getitem__, blocks))
        previous = [_NO_BLOCK, *found[:-1]]
        new = len(numbers) - known
        if new and found[-new] == known:  # the usual case: all that is new stands at the end
            before.extend(previous[len(found) - new : len(found)])
        elif new:
            before.extend([p for x, p in zip(found, previous, strict=False) if x >= known])
        if list(map(before.__getitem__, found)) == previous[: len(found)]:
            return found
        at = next(i for i, x in enumerate(found) if before[x] != previous[i])
        was = before[found[at]]
        self._forget(known)
        raise self._source.error(
            line,
            self._blocks_field,
            f"block {blocks[at]!r} follows {_name(blocks[at - 1] if at else None)}, "
            f"but {_name(_block_of(numbers, was))} earlier: ids must be prefix-chained",
        )

    def _forget(self, known: int) -> None:
        """Take back the numbers from `known` on."""
        for block in list(self._numbers)[known:]:
            del self._numbers[block]
        self._numbers.default_factory = count(known).__next__
        del self._before[known:]


def numbered(numbers: dict[Any, int], name: N) -> int:
    """The number of a name, by first appearance from 0."""
    return numbers.setdefault(name, len(numbers))


def refuse_empty(source: Source, requests: int, references: int, blocks_field: str) -> None:
    """Raise TraceError for a trace with no request, or with none that has a block."""
    if requests == 0:
        raise source.error(1, "file", "the trace has no request" + _besides(source))
    if references == 0:
        raise source.error(1, blocks_field, f"none of {requests} requests has a block" + _besides(source))


def tokens_of(prompt_tokens: int, blocks: int, block_tokens: int) -> list[int]:
    """Tokens of each block of a prompt: all full but the last, which holds what is left, at most a block."""
    if blocks == 0:
        return []
    full = blocks - 1
    return [block_tokens] * full + [min(block_tokens, prompt_tokens - block_tokens * full)]


def _known(turns: Any) -> Any:
    return turns if np.any(turns != UNKNOWN) else None


def _besides(source: Source) -> str:
    return f" beside {source.skips.skipped} bad rows" if source.skips.skipped else ""


def _block_of(numbers: dict[Hashable, int], number: int) -> Hashable | None:
    return next((block for block, x in numbers.items() if x == number), None)


def _name(block: Hashable | None) -> str:
    return "nothing" if block is None else repr(block)
