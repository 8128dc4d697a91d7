"""Statistics as plain data: one document for JSON, one flat row a class for Parquet."""

from dataclasses import asdict
from typing import Any

from kvtune_lab.stats.report import ArrivalReport, ClassStats, Report


def document(report: Report | ArrivalReport) -> dict[str, Any]:
    """Everything, nested, as JSON takes it."""
    data = asdict(report)
    if isinstance(report, Report):
        for stats, found in zip(
            (report.whole, *report.classes), (data["whole"], *data["classes"]), strict=True
        ):
            held = stats.demand.working_set
            found["demand"]["working_set"] |= {"distinct_gib": held.distinct_gib, "peak_gib": held.peak_gib}
    return data


def class_rows(report: Report) -> list[dict[str, Any]]:
    """The whole first, then each class; the same columns in each row."""
    return [_class_row(stats) for stats in (report.whole, *report.classes)]


def _class_row(stats: ClassStats) -> dict[str, Any]:
    intervals = stats.intervals
    fits = {fit.law: fit for fit in intervals.fits}
    row: dict[str, Any] = {
        "class": stats.name,
        "requests": stats.requests,
        "references": stats.references,
        "tokens": stats.tokens,
        "ideal_reuse": stats.ideal_reuse,
        "prefix_match_rate": stats.prefix_match_rate,
        "wasted_share": stats.wasted_share,
        "intervals": intervals.count,
        "mean_seconds": intervals.mean_seconds,
        "median_seconds": intervals.median_seconds,
        "p90_seconds": intervals.p90_seconds,
        "best_fit": intervals.fits[0].law.value if intervals.fits else None,
        **_demand(stats),
    }
    for law in ("exponential", "lognormal", "weibull", "gamma"):
        fit = next((fit for name, fit in fits.items() if name == law), None)
        row[f"{law}_shape"] = None if fit is None else fit.shape
        row[f"{law}_scale_seconds"] = None if fit is None else fit.scale_seconds
        row[f"{law}_ks"] = None if fit is None else fit.ks_distance
    return row


def _demand(stats: ClassStats) -> dict[str, Any]:
    skew, held, spikes = stats.demand.skew, stats.demand.working_set, stats.demand.spikes
    return {
        "users": None if skew is None else skew.users,
        "users_share_of_reuse": None if skew is None else skew.users_share_of_reuse,
        "distinct_blocks": held.distinct_blocks,
        "working_set_mean_blocks": held.mean_blocks,
        "working_set_p95_blocks": held.p95_blocks,
        "working_set_peak_blocks": held.peak_blocks,
        "arrivals_mean_per_bin": None if spikes is None else spikes.mean_per_bin,
        "arrivals_peak_per_bin": None if spikes is None else spikes.peak_per_bin,
        "arrivals_index_of_dispersion": None if spikes is None else spikes.index_of_dispersion,
    }


def arrival_row(report: ArrivalReport) -> dict[str, Any]:
    """One flat row."""
    row = {
        name: value for name, value in asdict(report).items() if name not in ("spikes", "clients", "notes")
    }
    spikes = {} if report.spikes is None else asdict(report.spikes)
    return row | {f"arrivals_{name}": value for name, value in spikes.items()}
