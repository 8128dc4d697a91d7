"""All statistics of one trace: of the whole and of each class.

Called by `kvtune trace stats`. Rates and shares are from 0 to 1. What a trace does not tell of is None, and
its notes say why.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kvtune_lab.readers.loaded import Arrivals, ClientRates, Format, Loaded, Reals
from kvtune_lab.stats.arrivals import BIN_SECONDS, Spikes, refuse_long, spikes_of, spikes_of_rates
from kvtune_lab.stats.classes import Classes, classes_of
from kvtune_lab.stats.demand import Demand, Demands
from kvtune_lab.stats.intervals import Intervals, describe
from kvtune_lab.stats.residency import Residency, characteristic_seconds, under_ttl
from kvtune_lab.stats.reuse import known_prefixes, next_requests, requests_of, tokens_before
from kvtune_lab.stats.skew import Skew, skew_of
from kvtune_lab.stats.turns import conversations

INTERVAL_SAMPLES = 2_000_000
"""Of more references so many, drawn with a fixed seed, are asked for their intervals."""

_SEED = 1

Labels: TypeAlias = NDArray[np.uint8]
"""A class each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to hold a trace against."""

    ttl_seconds: float = 300.0
    lru_blocks: int | None = None
    """Instead of the TTL: an LRU of so many blocks."""

    window_seconds: float = 600.0
    bytes_per_token: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassStats:
    """One class of requests, or of blocks by part of the prompt."""

    name: str
    requests: int | None
    """None for a part of the prompt."""

    references: int
    tokens: int
    ideal_reuse: float
    """The share of block touches whose block is touched again."""

    prefix_match_rate: float
    """The share of tokens that an infinite cache has when they come."""

    intervals: Intervals
    wasted_share: float | None
    demand: Demand


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One trace with blocks."""

    format: Format
    block_tokens: int
    duration_seconds: float
    whole: ClassStats
    prefix_match_rate_last_half: float
    classes: tuple[ClassStats, ...]
    residency_ttl_seconds: float
    lru_blocks: int | None
    sampled_references: int
    notes: tuple[str, ...]
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalReport:
    """One trace that tells of arrivals alone."""

    format: Format
    duration_seconds: float
    requests: float
    prompt_tokens: int | None
    output_tokens: int | None
    spikes: Spikes | None
    clients: Skew | None
    notes: tuple[str, ...]
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """References that were asked when their block is wanted again."""

    classes: Labels
    seconds: Reals
    """Until then; inf for never."""


def arrival_report(arrivals: Arrivals | ClientRates) -> ArrivalReport:
    """Describe a trace without blocks; raises SpanError."""
    if isinstance(arrivals, ClientRates):
        return ArrivalReport(
            format=arrivals.format,
            duration_seconds=float(arrivals.times.max()) + arrivals.step_seconds,
            requests=float(arrivals.rates.sum() * arrivals.step_seconds),
            prompt_tokens=None,
            output_tokens=None,
            spikes=spikes_of_rates(arrivals),
            clients=skew_of(arrivals.clients, arrivals.rates, inferred=False),
            notes=arrivals.notes,
            skipped=arrivals.skipped,
        )
    refuse_long(float(arrivals.times[-1]))
    return ArrivalReport(
        format=arrivals.format,
        duration_seconds=float(arrivals.times[-1]),
        requests=len(arrivals.times),
        prompt_tokens=int(arrivals.prompts.sum(dtype=np.int64)),
        output_tokens=int(arrivals.outputs.sum(dtype=np.int64)),
        spikes=spikes_of(arrivals.times),
        clients=None,
        notes=arrivals.notes,
        skipped=arrivals.skipped,
    )


class TraceStats:
    """Works out the statistics of one trace; keeps what plots need, too."""

    def __init__(self, loaded: Loaded, options: Options) -> None:
        """Go through the trace once for each of its next uses, known prefixes and classes.

        Raises SpanError for a trace that spans too many minutes, or windows.
        """
        for seconds in (BIN_SECONDS, options.window_seconds):
            refuse_long(float(loaded.requests.times[-1]), seconds)
        self.loaded = loaded
        self.options = options
        self.talks = conversations(loaded)
        self.classes: Classes = classes_of(loaded, self.talks)
        self._requests = loaded.requests
        self._of_reference = self.classes.of_references(loaded)
        self._following = next_requests(loaded.requests, loaded.distinct_blocks)
        self._tokens = tokens_before(loaded.requests)
        heads = np.asarray(loaded.requests.starts)[:-1]
        self._found = known_prefixes(loaded.requests)
        self.hit_tokens: Reals = (self._tokens[heads + self._found] - self._tokens[heads]).astype(np.float64)
        self.sample = self._sampled()
        per_token = options.bytes_per_token
        self._demands = Demands(
            loaded=loaded,
            talks=self.talks,
            hit_tokens=self.hit_tokens,
            window_seconds=options.window_seconds,
            bytes_per_block=None if per_token is None else per_token * loaded.block_tokens,
        )

    def report(self) -> Report:
        """Put it all together."""
        loaded, options = self.loaded, self.options
        kept = self._residency()
        count = len(self.hit_tokens)
        last = np.asarray(self._requests.starts)[count // 2]
        return Report(
            format=loaded.format,
            block_tokens=loaded.block_tokens,
            duration_seconds=float(self._requests.times[-1]),
            whole=self._whole(kept),
            prefix_match_rate_last_half=_share(
                self.hit_tokens[count // 2 :].sum(), self._tokens[-1] - self._tokens[last]
            ),
            classes=tuple(self._class(k, kept) for k in range(len(self.classes.names))),
            residency_ttl_seconds=kept.ttl_seconds,
            lru_blocks=options.lru_blocks,
            sampled_references=len(self.sample.seconds),
            notes=loaded.notes,
            skipped=loaded.skipped,
        )

    def seconds_of(self, k: int) -> Reals:
        """Sampled intervals of a class, those to a next use alone."""
        seconds: Reals = self.sample.seconds[self.sample.classes == k]
        return seconds[np.isfinite(seconds)]

    def _whole(self, kept: Residency) -> ClassStats:
        seconds = self.sample.seconds
        return ClassStats(
            name="all",
            requests=len(self.hit_tokens),
            references=len(self._following),
            tokens=int(self._tokens[-1]),
            ideal_reuse=_share(self._reused(slice(None)), len(self._following)),
            prefix_match_rate=_share(self.hit_tokens.sum(), self._tokens[-1]),
            intervals=describe(seconds[np.isfinite(seconds)]),
            wasted_share=kept.wasted_share,
            demand=self._demands.of_whole(),
        )

    def _class(self, k: int, kept: Residency) -> ClassStats:
        mine = self._of_reference == k
        tokens, hit = self._class_tokens(k, mine)
        of_request = self.classes.of_request
        held = float(kept.useful[k] + kept.wasted[k])
        references = int(np.count_nonzero(mine))
        return ClassStats(
            name=self.classes.names[k],
            requests=None if of_request is None else int(np.count_nonzero(of_request == k)),
            references=references,
            tokens=tokens,
            ideal_reuse=_share(self._reused(mine), references),
            prefix_match_rate=_share(hit, tokens),
            intervals=describe(self.seconds_of(k)),
            wasted_share=float(kept.wasted[k]) / held if held else None,
            demand=self._demands.of_class(self.classes, k),
        )

    def _class_tokens(self, k: int, mine: NDArray[np.bool_]) -> tuple[int, float]:
        """Tokens of a class, and those of them that an infinite cache has."""
        of_request = self.classes.of_request
        if of_request is not None:
            starts = np.asarray(self._requests.starts)
            chosen = of_request == k
            tokens = (self._tokens[starts[1:]] - self._tokens[starts[:-1]])[chosen].sum()
            return int(tokens), float(self.hit_tokens[chosen].sum())
        tokens_of = np.asarray(self._requests.tokens)
        lengths = np.diff(np.asarray(self._requests.starts))
        place = np.arange(len(mine)) - np.repeat(np.asarray(self._requests.starts)[:-1], lengths)
        known = place < np.repeat(self._found, lengths)
        return int(tokens_of[mine].sum(dtype=np.int64)), float(tokens_of[mine & known].sum(dtype=np.int64))

    def _reused(self, mine: NDArray[np.bool_] | slice) -> int:
        return int(np.count_nonzero(self._following[mine] < len(self.hit_tokens)))

    def _sampled(self) -> Sample:
        references = len(self._following)
        if references > INTERVAL_SAMPLES:
            drawn = np.random.default_rng(_SEED).choice(references, INTERVAL_SAMPLES, replace=False)
        else:
            drawn = np.arange(references)
        times = np.asarray(self._requests.times)
        ends = np.append(times, np.inf)
        seconds = ends[self._following[drawn]] - times[requests_of(self._requests, drawn)]
        return Sample(classes=self._of_reference[drawn], seconds=seconds)

    def _residency(self) -> Residency:
        ttl, blocks = self.options.ttl_seconds, self.options.lru_blocks
        if blocks is not None:
            ttl = characteristic_seconds(self._requests, self._following, blocks)
        return under_ttl(self._requests, self._following, ttl, self._of_reference, len(self.classes.names))


def _share(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else 0.0
