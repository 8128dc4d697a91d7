"""How requests arrive: peaks against the mean, and how far from independent arrivals they are."""

from dataclasses import dataclass, replace

import numpy as np

from kvtune_lab.readers.loaded import ClientRates, Reals

BIN_SECONDS = 60.0

MOST_BINS = 5_000_000
"""Nine years of minutes; a trace that spans more has times in another unit, or from several clocks."""


class SpanError(ValueError):
    """Tell the user that a trace spans too long for its minutes, or windows, to be counted."""


def refuse_long(seconds: float, bin_seconds: float = BIN_SECONDS) -> None:
    """Raise SpanError for a span of more than MOST_BINS bins."""
    if seconds > MOST_BINS * bin_seconds:
        raise SpanError(f"spans {seconds:,.6g} s, more than {MOST_BINS:,} windows of {bin_seconds:g} s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spikes:
    """Counts of requests in bins of time; the last bin counts only where the trace fills it."""

    bin_seconds: float
    bins: int
    mean_per_bin: float
    peak_per_bin: float
    peak_over_mean: float
    peak_at_seconds: float
    """Where the bin with the most begins, the first of them."""

    index_of_dispersion: float | None
    """Variance over mean of the counts: 1 for independent arrivals; None for a single bin, or rates."""

    gap_variation: float | None
    """Coefficient of variation of the gaps between requests: 1 for independent arrivals."""


def counts_per_bin(
    times: Reals, bin_seconds: float = BIN_SECONDS, *, until_seconds: float | None = None
) -> Reals:
    """Requests in each bin from second 0 until a time, at first that of the last request.

    A last bin that is not full is left out, unless it is the only one.
    """
    edges = max(int((float(times[-1]) if until_seconds is None else until_seconds) // bin_seconds), 1)
    counts = np.bincount((times // bin_seconds).astype(np.int64), minlength=edges)[:edges]
    return counts.astype(np.float64)


def spikes_of(times: Reals, *, until_seconds: float | None = None) -> Spikes | None:
    """Describe arrivals in seconds from 0, in order; None where no full bin holds one."""
    counts = counts_per_bin(times, until_seconds=until_seconds)
    if not counts.any():
        return None
    gaps = np.diff(times)
    steady = len(gaps) == 0 or gaps.mean() == 0
    spikes = _spikes(counts, BIN_SECONDS)
    return replace(
        spikes,
        index_of_dispersion=float(counts.var() / counts.mean()) if len(counts) > 1 else None,
        gap_variation=None if steady else float(gaps.std() / gaps.mean()),
    )


def spikes_of_rates(rates: ClientRates) -> Spikes | None:
    """Describe the sum of all clients' rates, step by step; None where all are 0."""
    if not rates.rates.any():
        return None
    steps = (rates.times // rates.step_seconds).astype(np.int64)
    counts = np.bincount(steps, rates.rates * rates.step_seconds).astype(np.float64)
    return _spikes(counts, rates.step_seconds)


def _spikes(counts: Reals, bin_seconds: float) -> Spikes:
    mean = float(counts.mean())
    return Spikes(
        bin_seconds=bin_seconds,
        bins=len(counts),
        mean_per_bin=mean,
        peak_per_bin=float(counts.max()),
        peak_over_mean=float(counts.max()) / mean,
        peak_at_seconds=int(counts.argmax()) * bin_seconds,
        index_of_dispersion=None,
        gap_variation=None,
    )
