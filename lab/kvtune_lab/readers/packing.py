"""Pack requests into arrays as they come: number blocks by first appearance, check what all formats promise.

Called by every reader that parses single requests. Blocks are prefix-chained: one id always has the same
predecessor, so that a block hits only after all before it. Memory: 4 bytes a reference and 4 a token count,
beside one dictionary entry a distinct block.
"""

from array import array
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from kvtune_cache.requests import Requests
from kvtune_lab.readers.errors import TraceError, bad_rows
from kvtune_lab.readers.loaded import MOST_KINDS, UNKNOWN, Format, Loaded, Whole
from kvtune_lab.readers.source import Source

N = TypeVar("N", bound=Hashable)

_NO_BLOCK = -1


class Row(NamedTuple):
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
        self._numbers: dict[Hashable, int] = {}
        self._are_numbers = True  # all ids so far are their own numbers, and `_numbers` is empty
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
        first_s = self._times[0]
        times = array("d", [time_s - first_s for time_s in self._times])
        outputs, kinds, hints = self._outputs, self._kinds, self._hints
        return Loaded(
            requests=Requests(self._starts, self._blocks, self._tokens, times, outputs, kinds, hints),
            block_tokens=block_tokens,
            format=format,
            sessions=_known(self._sessions),
            turns=_known(self._turns),
            kind_names=names,
            notes=notes,
            skipped=self._source.skips.skipped,
        )

    def _numbered(self, line: int, blocks: Sequence[Hashable]) -> list[int]:
        """Number the blocks of a request: the known ones come first, as ids are prefix-chained."""
        if self._are_numbers:
            if self._are_next(blocks):
                return cast("list[int]", blocks)
            self._are_numbers = False
            self._numbers = {x: x for x in range(len(self._before))}
        numbers, before = self._numbers, self._before
        known, found = len(numbers), list(map(numbers.get, blocks))
        first = found.index(None) if None in found else len(found)
        old = cast("list[int]", found[:first])
        new = range(known, known + len(found) - first)
        chained = found.count(None) == len(new)
        chained &= list(map(before.__getitem__, old)) == [_NO_BLOCK, *old[:-1]][:first]
        if chained:
            numbers.update(zip(blocks[first:], new, strict=True))
        if not chained or len(numbers) < known + len(new):
            self._forget(known)
            raise self._not_chained(line, blocks)
        if new:
            before.append(old[-1] if old else _NO_BLOCK)
            before.extend(new[:-1])
        return [*old, *new]

    def _are_next(self, blocks: Sequence[Hashable]) -> bool:
        """Take in blocks whose ids are the numbers that they would get, as those of Mooncake's traces are."""
        if type(blocks) is not list or not set(map(type, blocks)) <= {int} or min(blocks, default=0) < 0:
            return False
        before, known = self._before, len(self._before)
        new = max(0, max(blocks, default=-1) + 1 - known)
        if new > len(blocks):
            return False
        old, fresh = blocks[: len(blocks) - new], list(range(known, known + new))
        if max(old, default=-1) >= known or blocks[len(old) :] != fresh:
            return False
        if list(map(before.__getitem__, old)) != [_NO_BLOCK, *old][: len(old)]:
            return False
        if fresh:
            before.append(old[-1] if old else _NO_BLOCK)
            before.extend(fresh[:-1])
        return True

    def _forget(self, known: int) -> None:
        """Take back the numbers from `known` on."""
        for block in list(self._numbers)[known:]:
            del self._numbers[block]

    def _not_chained(self, line: int, blocks: Sequence[Hashable]) -> TraceError:
        """Name the first block that follows another one than earlier."""
        earlier: dict[Hashable, Hashable | None] = {}
        previous: Hashable | None = None
        for block in blocks:
            was = earlier.setdefault(block, self._follows(block, previous))
            if was != previous:
                break
            previous = block
        return self._source.error(
            line,
            self._blocks_field,
            f"block {block!r} follows {_name(previous)}, "
            f"but {_name(was)} earlier: ids must be prefix-chained",
        )

    def _follows(self, block: Hashable, otherwise: Hashable | None) -> Hashable | None:
        """The block that a known one follows; None for none."""
        x = self._numbers.get(block)
        if x is None:
            return otherwise
        was = self._before[x]
        if otherwise is not None and self._numbers.get(otherwise) == was:
            return otherwise
        return next((name for name, number in self._numbers.items() if number == was), None)


def numbered(numbers: dict[Any, int], name: N) -> int:
    """The number of a name, by first appearance from 0."""
    return numbers.setdefault(name, len(numbers))


def refuse_empty(source: Source, requests: int, references: int, blocks_field: str) -> None:
    """Raise TraceError for a trace with no request, or with none that has a block."""
    if requests == 0:
        raise source.error(1, "file", "the trace has no request" + _besides(source))
    if references == 0:
        raise source.error(1, blocks_field, f"none of {requests} requests has a block" + _besides(source))


def tokens_of(prompt_tokens: int, blocks: int, block_tokens: int) -> "array[int]":
    """Tokens of each block of a prompt: all full but the last, which holds what is left, at most a block."""
    tokens = array("i", (block_tokens,)) * blocks
    if blocks > 0:
        tokens[-1] = min(block_tokens, prompt_tokens - block_tokens * (blocks - 1))
    return tokens


def _known(numbers: "array[int]") -> "Whole | None":
    """The numbers as numpy has them; None where none is known."""
    if numbers.count(UNKNOWN) == len(numbers):
        return None
    import numpy as np

    return np.frombuffer(numbers, np.int32)


def _besides(source: Source) -> str:
    return f" beside {bad_rows(source.skips.skipped)}" if source.skips.skipped else ""


def _name(block: Hashable | None) -> str:
    return "nothing" if block is None else repr(block)
