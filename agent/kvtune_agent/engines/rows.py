"""A serving model's counters as one row of numbers, and back as a snapshot.

Called by replay.py at every grid time. The order of a row's columns is known here alone.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from kvtune_agent.engine import OfKind, Snapshot
from kvtune_agent.engines.grid import Row
from kvtune_api.wire import Counters, Histogram
from kvtune_cache.serving import TTFT_BOUNDS_SECONDS, ServingModel

# Upper bounds of vLLM's vllm:request_queue_time_seconds, seconds; +Inf comes after them.
QUEUE_BOUNDS_SECONDS = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0,
    30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip

_TOTALS = (
    "requests",
    "prompt_tokens",
    "device_hit_tokens",
    "host_hit_tokens",
    "eviction_passes",
    "bytes_written_down",
    "errors",
    "new_roots",
    "stall_seconds",
    "evicted_blocks_ttl",
    "evicted_blocks_pressure",
    "evicted_blocks_resize",
)
(
    REQUESTS,
    PROMPT,
    DEVICE_HITS,
    HOST_HITS,
    PASSES,
    DOWN,
    ERRORS,
    ROOTS,
    STALL,
    BY_TTL,
    BY_PRESSURE,
    BY_RESIZE,
) = range(len(_TOTALS))
_TTFT = slice(len(_TOTALS), len(_TOTALS) + len(TTFT_BOUNDS_SECONDS) + 1)
_QUEUE = slice(_TTFT.stop, _TTFT.stop + len(QUEUE_BOUNDS_SECONDS) + 1)
_TTFT_SUM = _QUEUE.stop
_QUEUE_SUM = _QUEUE.stop + 1
_KINDS = _QUEUE_SUM + 1
_OF_KIND = 3


class QueueTimes:
    """Count waits for the server in vLLM's buckets."""

    __slots__ = ("counts", "sum_seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(QUEUE_BOUNDS_SECONDS) + 1)
        self.sum_seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count one request."""
        self.counts[bisect_left(QUEUE_BOUNDS_SECONDS, seconds)] += 1
        self.sum_seconds += seconds


def row_of(model: ServingModel, queue: QueueTimes) -> Row:
    """The counters as they stand."""
    totals = model.totals
    row = array("d", [getattr(totals, name) for name in _TOTALS])
    row.extend(model.ttft.counts)
    row.extend(queue.counts)
    row.append(model.ttft.sum_seconds)
    row.append(queue.sum_seconds)
    for of_kind in model.kinds:
        row.extend((of_kind.requests, of_kind.prompt_tokens, of_kind.hit_tokens))
    return row


def snapshot_of(row: Row, *, at: float, started_at: float) -> Snapshot:
    """The counters of a row."""
    return Snapshot(
        counters=Counters(
            at=at,
            started_at=started_at,
            requests=row[REQUESTS],
            prompt_tokens=row[PROMPT],
            hit_tokens=row[DEVICE_HITS] + row[HOST_HITS],
            eviction_passes=row[PASSES],
            bytes_down=row[DOWN],
            errors=row[ERRORS],
            new_session_roots=row[ROOTS],
            ttft=_histogram(TTFT_BOUNDS_SECONDS, row[_TTFT], row[_TTFT_SUM]),
        ),
        device_hit_tokens=row[DEVICE_HITS],
        lower_hit_tokens=row[HOST_HITS],
        evicted_blocks={"ttl": row[BY_TTL], "pressure": row[BY_PRESSURE], "resize": row[BY_RESIZE]},
        stall_seconds=row[STALL],
        queue_seconds=_histogram(QUEUE_BOUNDS_SECONDS, row[_QUEUE], row[_QUEUE_SUM]),
        kinds=tuple(_kinds(row)),
    )


def _kinds(row: Row) -> Iterator[OfKind]:
    for kind, at in enumerate(range(_KINDS, len(row), _OF_KIND)):
        requests, prompt, hits = row[at : at + _OF_KIND]
        if requests:
            yield OfKind(kind=kind, requests=requests, prompt_tokens=prompt, hit_tokens=hits)


def _histogram(bounds: tuple[float, ...], counts: Row, total: float) -> Histogram:
    return Histogram(bounds=bounds, counts=tuple(accumulate(counts)), sum=total)
