"""Statistics of a trace as tables for a person."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from rich.box import SIMPLE_HEAD
from rich.table import Table

from kvtune_cli.output import say
from kvtune_cli.tables import print_table
from kvtune_lab.sizes import in_bytes
from kvtune_lab.stats.arrivals import Spikes
from kvtune_lab.stats.intervals import Law
from kvtune_lab.stats.report import ArrivalReport, ClassStats, Report
from kvtune_lab.stats.skew import Skew

NOT_KNOWN = "-"

_SHORT: Mapping[Law, str] = MappingProxyType(
    {Law.EXPONENTIAL: "exp.", Law.LOGNORMAL: "logn.", Law.WEIBULL: "Weib.", Law.GAMMA: "gamma"}
)


def print_report(report: Report) -> None:
    """Print the classes, the laws of their intervals, and the whole."""
    classes = (*report.classes, report.whole)
    _print(class_table(classes), law_table(classes), demand_table(classes), _whole(report))


def print_arrivals(report: ArrivalReport) -> None:
    """Print what arrivals alone tell."""
    table = _facts(f"Arrivals ({report.format}, no blocks)")
    _add(table, "requests", f"{report.requests:,.0f} in {_time(report.duration_seconds)}")
    if report.prompt_tokens is not None and report.output_tokens is not None:
        _add(table, "tokens", f"{report.prompt_tokens:,} of prompts, {report.output_tokens:,} of answers")
    if report.spikes is not None:
        _add_spikes(table, report.spikes)
    if report.clients is not None:
        _add(table, "client skew", _skew(report.clients, "clients", "requests"))
    _print(table)


def _print(*tables: Table) -> None:
    for table in tables:
        print_table(table)
        say("")


def class_table(classes: Iterable[ClassStats]) -> Table:
    """A line for each class."""
    heads = ("requests", "blocks", "touched\nagain", "prefix\nmatch", "mean", "median", "p90", "wasted")
    table = _by_class("By class, rates in %", heads)
    for stats in classes:
        seconds = stats.intervals
        table.add_row(
            stats.name,
            NOT_KNOWN if stats.requests is None else f"{stats.requests:,}",
            _count(stats.references),
            _percent(stats.ideal_reuse),
            _percent(stats.prefix_match_rate),
            *(_time(each) for each in (seconds.mean_seconds, seconds.median_seconds, seconds.p90_seconds)),
            _percent(stats.wasted_share),
        )
    return table


def law_table(classes: Iterable[ClassStats]) -> Table:
    """A line for each class: the best law of its intervals, and how far every law is from them."""
    heads = ("intervals", "best law", "shape", "scale", *(f"KS\n{name}" for name in _SHORT.values()))
    table = _by_class("Laws of the time until a block is touched again", heads)
    for stats in classes:
        table.add_row(stats.name, f"{stats.intervals.count:,}", *_law_cells(stats))
    return table


def _law_cells(stats: ClassStats) -> list[str]:
    fits = stats.intervals.fits
    if not fits:
        return [NOT_KNOWN] * (3 + len(_SHORT))
    distances = {fit.law: f"{fit.ks_distance:.3f}" for fit in fits}
    best = fits[0]
    return [best.law, f"{best.shape:.3g}", _time(best.scale_seconds), *(distances[law] for law in _SHORT)]


def demand_table(classes: Iterable[ClassStats]) -> Table:
    """A line for each class: its users, its working sets in blocks, how its requests arrive."""
    heads = ("users", "90 % of\nreuse by", "set,\nmean", "set,\npeak", "a min,\nmean", "peak", "disp.")
    table = _by_class("Users, working sets and arrivals by class", heads)
    for stats in classes:
        skew, held, spikes = stats.demand.skew, stats.demand.working_set, stats.demand.spikes
        table.add_row(
            stats.name,
            *((NOT_KNOWN,) * 2 if skew is None else (f"{skew.users:,}", _percent(skew.users_share_of_reuse))),
            f"{held.mean_blocks:,.0f}",
            f"{held.peak_blocks:,.0f}",
            *((NOT_KNOWN,) * 3 if spikes is None else _arrival_cells(spikes)),
        )
    return table


def _arrival_cells(spikes: Spikes) -> tuple[str, str, str]:
    index = spikes.index_of_dispersion
    return (
        f"{spikes.mean_per_bin:,.3g}",
        f"{spikes.peak_per_bin:,.0f}",
        NOT_KNOWN if index is None else f"{index:.2f}",
    )


def _whole(report: Report) -> Table:
    table = _facts(f"The whole trace ({report.format}, blocks of {report.block_tokens} tokens)")
    whole, demand = report.whole, report.whole.demand
    held = demand.working_set
    assert demand.skew is not None and demand.spikes is not None, "a trace has a request"
    _add(table, "requests", f"{whole.requests:,} in {_time(report.duration_seconds)}")
    _add(table, "blocks", f"{whole.references:,} touched, {held.distinct_blocks:,} distinct")
    _add(
        table,
        "infinite cache",
        f"hits {_percent(whole.prefix_match_rate)} % of tokens, last half "
        f"{_percent(report.prefix_match_rate_last_half)} %",
    )
    users = "sessions (inferred from prefixes)" if demand.skew.inferred else "sessions"
    _add(table, "user skew", _skew(demand.skew, users, "reused tokens"))
    _add(
        table,
        f"working set, {_time(held.window_seconds)}",
        f"mean {held.mean_blocks:,.0f}, p95 {held.p95_blocks:,.0f}, peak {held.peak_blocks:,.0f} blocks",
    )
    if held.bytes_per_block is not None:
        peak, distinct = (
            in_bytes(n * held.bytes_per_block) for n in (held.peak_blocks, held.distinct_blocks)
        )
        _add(table, "in bytes", f"peak {peak}, all distinct {distinct}")
    _add_spikes(table, demand.spikes)
    under = f"a TTL of {_time(report.residency_ttl_seconds)}"
    if report.lru_blocks is not None:
        under = f"an LRU of {report.lru_blocks:,} blocks (as {under})"
    _add(table, "wasted residency", f"{_percent(whole.wasted_share)} % of block-seconds, under {under}")
    if report.sampled_references < whole.references:
        _add(table, "intervals", f"of {report.sampled_references:,} touches, drawn with a fixed seed")
    return table


def _by_class(title: str, heads: Iterable[str]) -> Table:
    """A table that a terminal of 80 columns takes."""
    table = Table(
        title=title,
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=0,
        pad_edge=False,
        show_edge=False,
    )
    table.add_column("class", overflow="fold", min_width=12)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def _facts(title: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    return table


def _add(table: Table, name: str, text: str) -> None:
    table.add_row(name, text)


def _add_spikes(table: Table, spikes: Spikes) -> None:
    bins = _time(spikes.bin_seconds)
    _add(
        table,
        f"arrivals, {bins}",
        f"mean {spikes.mean_per_bin:,.1f}, peak {spikes.peak_per_bin:,.0f} "
        f"({spikes.peak_over_mean:.1f} x mean) after {_time(spikes.peak_at_seconds)}",
    )
    if spikes.index_of_dispersion is not None:
        _add(table, "index of dispersion", f"{spikes.index_of_dispersion:.2f} (independent arrivals: 1)")


def _skew(skew: Skew, users: str, volume: str) -> str:
    if skew.users_share_of_reuse is None:
        return f"{skew.users:,} {users}, no {volume}"
    return f"{_percent(skew.users_share_of_reuse)} % of {skew.users:,} {users} have 90 % of {volume}"


def _count(number: int) -> str:
    return f"{number:,}" if number < 1_000_000 else f"{number / 1e6:,.1f} M"


def _percent(rate: float | None) -> str:
    return NOT_KNOWN if rate is None else f"{100 * rate:.1f}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return NOT_KNOWN
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:,.1f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
