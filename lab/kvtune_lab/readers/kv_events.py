"""Read recorded KV events of vLLM: messages of its event publisher, each behind its length.

A record is 4 bytes, big-endian, of how many bytes follow, then the msgpack payload as vLLM published it
(the third frame of its ZeroMQ message): a batch of `ts`, `events` and perhaps `data_parallel_rank`. Batches
and events are arrays, with the event's name first, or maps, with it under `type`, depending on vLLM's version
(vllm/distributed/kv_events.py): BlockStored(block_hashes, parent_block_hash, token_ids, block_size, lora_id,
medium, ...), BlockRemoved, AllBlocksCleared.

Events tell of blocks that were stored, not of requests. A stored run of blocks with all its ancestors is read
as a request; one that goes on where an earlier one ended, within JOIN_SECONDS of its latest event, belongs to
that request (chunked prefill, and the blocks of an answer). Blocks stored anywhere but on the device are no
requests, nor is what leaves.

Errors: TraceError, with the number of the record as its line.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple, TypeAlias, TypeGuard

from kvtune_lab.readers.errors import TraceError
from kvtune_lab.readers.fields import MOST, TIME_LIMIT
from kvtune_lab.readers.loaded import LACKS, Format, Loaded
from kvtune_lab.readers.packing import Packing, Row
from kvtune_lab.readers.source import MOST_LINE_BYTES, Source, Unpackable, shown, unpacked

JOIN_SECONDS = 2.0
"""A decode step takes far less than this even at a large batch, the next turn of a session seldom does."""

LENGTH_BYTES = 4
_BATCH_FIELDS = ("ts", "events", "data_parallel_rank")
_STORED_FIELDS = (
    "type",
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
)
_EVENTS = frozenset({"BlockStored", "BlockRemoved", "AllBlocksCleared"})
_ON_DEVICE = (None, "GPU")

Hash: TypeAlias = int | bytes


def write_kv_events(file: IO[bytes], payloads: Iterable[bytes]) -> None:
    """Write published payloads, each behind its length."""
    for payload in payloads:
        file.write(len(payload).to_bytes(LENGTH_BYTES, "big") + payload)


def looks_like_kv_events(head: bytes) -> bool:
    """Whether a file begins as one record does: a length, then an array of 2 or 3, or a map of as many."""
    return len(head) > LENGTH_BYTES and head[0] < 0x10 and head[LENGTH_BYTES] in (0x92, 0x93, 0x82, 0x83)


def load_kv_events(source: Source) -> Loaded:
    """Read all events as requests into arrays."""
    gathering = _Gathering(source)
    packing = Packing(source, time_field="ts", blocks_field="block_hashes")
    packing.add_all(gathering.rows())
    return packing.loaded(Format.KV_EVENTS, block_tokens=gathering.block_tokens, notes=gathering.notes())


class _Run(NamedTuple):
    """Blocks that were stored, one behind the other."""

    hashes: list[Hash]
    parent: Hash | None
    block_tokens: int


@dataclass(slots=True)
class _Open:
    """A request whose blocks are still being stored."""

    line: int
    began_s: float
    latest_s: float
    blocks: list[Hash]


@dataclass(slots=True)
class _Gathering:
    """Turns events into requests, in the order in which these began."""

    source: Source
    block_tokens: int = 0
    cut: int = 0
    ranks: set[object] = field(default_factory=set)
    parents: dict[Hash, Hash | None] = field(default_factory=dict)
    ending: dict[Hash, _Open] = field(default_factory=dict)
    open: deque[_Open] = field(default_factory=deque)

    def rows(self) -> Iterator[tuple[int, Row]]:
        latest_s = 0.0
        for line, payload in _records(self.source):
            try:
                batch = _batch(self.source, line, payload, latest_s)
                runs = self._stored_runs(line, batch["events"])
                for run in runs:
                    self._take(line, batch["ts"], run)
                latest_s = batch["ts"]
                self.ranks.add(batch.get("data_parallel_rank"))
            except TraceError as error:
                self.source.skips.take(error)
            yield from self._closed(latest_s - JOIN_SECONDS)
        yield from self._closed(float("inf"))

    def notes(self) -> tuple[str, ...]:
        notes = LACKS[Format.KV_EVENTS]
        if self.cut:
            notes += (f"{self.cut} requests begin at a block from before the recording",)
        if len(self.ranks) > 1:
            notes += (f"{len(self.ranks)} data-parallel ranks are read as one cache",)
        return notes

    def _closed(self, until_s: float) -> Iterator[tuple[int, Row]]:
        while self.open and self.open[0].latest_s < until_s:
            request = self.open.popleft()
            if self.ending.get(request.blocks[-1]) is request:
                del self.ending[request.blocks[-1]]
            tokens = [self.block_tokens] * len(request.blocks)
            yield request.line, Row(time_s=request.began_s, blocks=request.blocks, tokens=tokens)

    def _stored_runs(self, line: int, events: list[object]) -> list[_Run]:
        """Check all events of a batch before any is taken: a bad one leaves nothing of the batch behind."""
        runs, block_tokens = [], self.block_tokens
        for data in events:
            event = _event(self.source, line, data)
            group, medium = event.get("group_idx"), event.get("medium")
            if event["type"] != "BlockStored" or medium not in _ON_DEVICE or group not in (None, 0):
                continue
            run = _run(self.source, line, event)
            if block_tokens not in (0, run.block_tokens):
                problem = f"{run.block_tokens} is not {block_tokens}, as before"
                raise self.source.error(line, "block_size", problem)
            block_tokens = run.block_tokens
            runs.append(run)
        self.block_tokens = block_tokens
        return runs

    def _take(self, line: int, now_s: float, run: _Run) -> None:
        hashes, parent = run.hashes, run.parent
        before = None if parent is None else self.ending.pop(parent, None)
        if before is not None and now_s - before.latest_s <= JOIN_SECONDS:
            before.blocks.extend(hashes)
            before.latest_s = now_s
            request = before
        else:
            request = _Open(line, now_s, now_s, [*self._ancestors(parent), *hashes])
            self.open.append(request)
        self.ending[hashes[-1]] = request
        for block, earlier in zip(hashes, [parent, *hashes], strict=False):
            self.parents.setdefault(block, earlier)

    def _ancestors(self, parent: Hash | None) -> list[Hash]:
        """From the first block to the parent; from the earliest that is known of.

        It ends: a block is noted once, behind one that was noted before it.
        """
        chain: list[Hash] = []
        while parent is not None:
            chain.append(parent)
            if parent not in self.parents:
                self.cut += 1
                self.parents[parent] = None
            parent = self.parents[parent]
        return chain[::-1]


def _records(source: Source) -> Iterator[tuple[int, bytes]]:
    number = 0
    with source.path.open("rb") as raw:
        size = max(source.path.stat().st_size, 1)
        stream = unpacked(raw)
        while True:
            number += 1
            try:
                length = stream.read(LENGTH_BYTES)
                wanted = int.from_bytes(length, "big")
                if wanted > MOST_LINE_BYTES:
                    source.skips.take(source.error(number, "record", f"is above {MOST_LINE_BYTES:,} bytes"))
                    return
                payload = stream.read(wanted) if len(length) == LENGTH_BYTES else b""
            except Unpackable as error:
                source.skips.take(source.error(number, "file", str(error)))
                return
            if not length:
                return
            if len(length) < LENGTH_BYTES or len(payload) < wanted:
                problem = f"ends after {len(length) + len(payload)} bytes of {LENGTH_BYTES + wanted}"
                source.skips.take(source.error(number, "record", problem))
                return
            if source.progress is not None:
                source.progress(raw.tell() / size)
            yield number, payload


def _batch(source: Source, line: int, payload: bytes, latest_s: float) -> dict[str, Any]:
    """Decode one batch and check its head; raises TraceError."""
    import msgspec

    try:
        data = msgspec.msgpack.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise source.error(line, "record", f"is not msgpack: {error}") from error
    batch = _named(data, _BATCH_FIELDS)
    if batch is None:
        raise source.error(line, "record", f"{shown(data)} is not a batch of events")
    ts = batch.get("ts")
    if isinstance(ts, bool) or not isinstance(ts, int | float) or not 0 <= ts < TIME_LIMIT:
        raise source.error(line, "ts", f"{shown(ts)} is not a number of seconds >= 0")
    if ts < latest_s:
        raise source.error(line, "ts", f"{ts:.12g} is before {latest_s:.12g}")
    if not isinstance(batch.get("events"), list):
        raise source.error(line, "events", f"{shown(batch.get('events'))} is not a list")
    rank = batch.get("data_parallel_rank")
    if not isinstance(rank, int | None):
        raise source.error(line, "data_parallel_rank", f"{shown(rank)} is not a whole number")
    return batch


def _event(source: Source, line: int, data: object) -> dict[str, Any]:
    event = _named(data, _STORED_FIELDS)
    kind = None if event is None else event.get("type")
    if event is None or not isinstance(kind, str) or kind not in _EVENTS:
        raise source.error(line, "events", f"{shown(data)} is not one of {', '.join(sorted(_EVENTS))}")
    return event


def _run(source: Source, line: int, event: dict[str, Any]) -> _Run:
    """Check what was stored; raises TraceError."""
    hashes, parent, size = (event.get(name) for name in ("block_hashes", "parent_block_hash", "block_size"))
    if not isinstance(hashes, list) or not hashes or not all(map(_is_hash, hashes)):
        raise source.error(line, "block_hashes", f"{shown(hashes)} is not a list of hashes")
    if parent is not None and not _is_hash(parent):
        raise source.error(line, "parent_block_hash", f"{shown(parent)} is not a hash")
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MOST:
        raise source.error(line, "block_size", f"{shown(size)} is not a whole number >= 1")
    return _Run(hashes, parent, size)


def _is_hash(value: object) -> TypeGuard[Hash]:
    return isinstance(value, int | bytes) and not isinstance(value, bool)


def _named(data: object, names: tuple[str, ...]) -> dict[str, Any] | None:
    """A struct of either layout by the names of its fields; what has no name here is left out."""
    if isinstance(data, dict):
        return data
    return dict(zip(names, data, strict=False)) if isinstance(data, list) else None
