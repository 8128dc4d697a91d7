"""Draw the demo: one picture -> one screen of the terminal, or one line where there is no terminal."""

import math
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.knobs import CHOSEN, CacheConfig, Knob, Point, point, written
from kvtune_api.wire import Report, Role
from kvtune_cli.demo.lag import behind
from kvtune_cli.demo.options import DemoOptions
from kvtune_cli.demo.watching import Figures, Picture

ROWS_BESIDE_AGENTS = 38
"""Rows of a terminal that the full screen needs beside a row for each agent; with fewer it is compact."""

EVENTS, EVENTS_COMPACT = 5, 3

LABELS = {
    Knob.CACHE_TTL: "TTL",
    Knob.EVICTION_RATIO: "ratio",
    Knob.HOST_MEMORY: "host memory",
    Knob.EVICTION_POLICY: "eviction",
    Knob.STORE_THRESHOLD: "store from",
}
"""Short names of the knobs, for columns and sentences."""

FIGURE_LABELS = ("Y", "hit rate", "TTFT share")


def screen(picture: Picture, options: DemoOptions, title: str, *, rows: int) -> RenderableType:
    """The whole screen; compact, for 24 rows of 80 columns, where the terminal has few rows."""
    if rows < ROWS_BESIDE_AGENTS + options.agents:
        body = _compact(picture, options)
    else:
        body = _full(picture, options)
    return Panel(Group(*body), title=title, border_style="cyan")


def _full(picture: Picture, options: DemoOptions) -> list[RenderableType]:
    parts: list[RenderableType] = [_head(picture, options, no_wrap=False)]
    if picture.experiment is not None:
        parts.append(_experiment(picture, picture.experiment))
    return [*parts, _agents(picture), _history(picture, EVENTS)]


def _compact(picture: Picture, options: DemoOptions) -> list[RenderableType]:
    parts: list[RenderableType] = [_head(picture, options, no_wrap=True)]
    if picture.experiment is not None:
        parts.append(_experiment_compact(picture, picture.experiment))
    return [*parts, Text(agents_line(picture), no_wrap=True), _history(picture, EVENTS_COMPACT)]


def line(picture: Picture) -> str:
    """The picture in one line, for a log."""
    status = picture.policy.status if picture.policy else None
    if status is None:
        return "waiting for the control plane"
    text = f"{status.phase}: {status.waiting_for}"
    if picture.experiment is not None:
        seen = picture.experiment.status.evidence
        text += f" [{picture.experiment.metadata.name}"
        if seen.e_value is not None and seen.effect is not None:
            text += f", {seen.deltas} Deltas, effect {seen.effect:+.4f}, e-value {seen.e_value:.3g}"
        text += "]"
    return text


def _head(picture: Picture, options: DemoOptions, *, no_wrap: bool) -> RenderableType:
    status = picture.policy.status if picture.policy else None
    grid = _grid(no_wrap)
    clock = f"{picture.elapsed:,.0f} of {options.scaled_seconds:,.0f} scaled seconds ({options.speed:g}x)"
    grid.add_row("time", clock)
    grid.add_row("phase", Text(str(status.phase) if status else "starting", style="bold"))
    grid.add_row("waits for", (status.waiting_for if status else "") or "-")
    if status and status.incumbent:
        grid.add_row("incumbent", shown(status.incumbent))
    if picture.behind_scaled_seconds is None:
        return grid
    return Group(grid, Text(behind(picture.behind_scaled_seconds, options.speed), style="bold red"))


def _grid(no_wrap: bool) -> Table:
    """Two columns: a label and its value."""
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=no_wrap, overflow="ellipsis", ratio=1)
    return grid


def shown(config: CacheConfig) -> str:
    """The knobs in one short line; a dash for one of the first three that is not set."""
    values = point(config)
    return " / ".join(brief(knob, values[knob]) if knob in values else "-" for knob in _shown_knobs(values))


def shown_labels(config: CacheConfig) -> str:
    """What `shown` says, by name."""
    return " / ".join(LABELS[knob] for knob in _shown_knobs(point(config)))


def _shown_knobs(values: Point) -> list[Knob]:
    always = (Knob.CACHE_TTL, Knob.EVICTION_RATIO, Knob.HOST_MEMORY)
    return [knob for knob in Knob if knob in always or knob in values]


def named(config: CacheConfig) -> str:
    """The knobs that are set, each with its name, for a sentence."""
    values = point(config)
    return ", ".join(f"{LABELS[knob]} {brief(knob, values[knob])}" for knob in Knob if knob in values)


def brief(knob: Knob, value: float) -> str:
    """A knob's value as short as people say it; sizes in GiB."""
    return f"{value / 2**30:.4g} GiB" if knob is Knob.HOST_MEMORY else written(knob, value)


def _experiment(picture: Picture, experiment: KVCacheExperiment) -> RenderableType:
    spec = experiment.spec
    table = _table(title=_why(experiment), title_justify="left")
    _columns(table, spec.incumbent)
    table.add_row("incumbent", *_knobs(spec.incumbent), *_figures(picture.incumbent))
    table.add_row(
        "candidate", *_candidate_knobs(spec.incumbent, spec.candidate), *_figures(picture.candidate)
    )
    evidence = _evidence(picture, experiment, no_wrap=False)
    if spec.policy_spec.targets.ttft:
        limit = spec.policy_spec.targets.ttft.limit
        evidence.add_row("TTFT share", f"of requests, with a first token within {limit}")
    return Group(table, evidence)


def _experiment_compact(picture: Picture, experiment: KVCacheExperiment) -> RenderableType:
    spec = experiment.spec
    table = _table()
    _columns(table, spec.incumbent)
    table.add_row("incumbent", *_knobs(spec.incumbent), *_figures(picture.incumbent))
    table.add_row("candidate", *_knobs(spec.candidate), *_figures(picture.candidate))
    why = Text(_why(experiment), no_wrap=True, overflow="ellipsis", style="italic")
    return Group(why, table, _evidence(picture, experiment, no_wrap=True))


def _why(experiment: KVCacheExperiment) -> str:
    return f"{experiment.metadata.name} ({experiment.spec.strategy}): {experiment.spec.why}"


def _table(**title: Any) -> Table:
    """A table without lines: with them all knobs do not fit 80 columns."""
    return Table(box=None, expand=True, padding=(0, 1, 0, 0), **title)


def _columns(table: Table, incumbent: CacheConfig) -> None:
    """Add a column for each knob and figure; what is one word stays in one piece."""
    table.add_column("", no_wrap=True)
    for knob in point(incumbent):
        table.add_column(LABELS[knob], justify="right", no_wrap=knob in CHOSEN)
    for heading in FIGURE_LABELS:
        table.add_column(heading, justify="right")


def _evidence(picture: Picture, experiment: KVCacheExperiment, *, no_wrap: bool) -> Table:
    spec, record = experiment.spec, experiment.status
    seen = record.evidence
    grid = _grid(no_wrap)
    effect = "none yet" if seen.effect is None else f"{seen.effect:+.4f}"
    if seen.interval is not None:
        effect += f"  (between {seen.interval[0]:+.4f} and {seen.interval[1]:+.4f})"
    if spec.predicted_gain is not None:
        effect += f"; predicted {spec.predicted_gain:+.4f}"
    grid.add_row("Deltas judged", f"{seen.deltas} of at most {spec.max_pairs}, {len(spec.pairs)} per block")
    grid.add_row("mean effect on Y", effect)
    grid.add_row("e-value", _e_value(seen.e_value, 1.0 / spec.policy_spec.experiment.alpha))
    if record.power is not None:
        grid.add_row("power", f"{record.power:.2f}")
    if record.estimated_end is not None:
        left = record.estimated_end - (picture.elapsed + _origin(picture))
        grid.add_row("estimated end", f"in about {max(left, 0):,.0f} scaled seconds")
    return grid


def _origin(picture: Picture) -> float:
    """Unix second of scaled second 0, from any agent's clock."""
    clocks = [r.clock for r in picture.agents.values() if isinstance(r, Report)]
    return max(clocks, default=picture.elapsed) - picture.elapsed


def _knobs(config: CacheConfig) -> list[str]:
    return [brief(knob, value) for knob, value in point(config).items()]


def _candidate_knobs(incumbent: CacheConfig, candidate: CacheConfig) -> list[str]:
    """The candidate's knobs with the size of each step."""
    before = point(incumbent)
    cells = []
    for knob, value in point(candidate).items():
        stepped = knob not in CHOSEN and before.get(knob)
        factor = value / before[knob] if stepped else 1.0
        cells.append(brief(knob, value) + (f" (x{factor:.2g})" if abs(factor - 1) > 1e-6 else ""))
    return cells


def _figures(figures: Figures) -> list[str]:
    return [
        "-" if figures.objective is None else f"{figures.objective:.3f}",
        "-" if figures.hit_rate is None else f"{figures.hit_rate:.1%}",
        "-" if figures.within_limit is None else f"{figures.within_limit:.1%}",
    ]


def _e_value(value: float | None, threshold: float) -> RenderableType:
    """The e-value on a log scale up to its threshold."""
    if value is None:
        return Text(f"none yet; declares at {threshold:g}")
    share = min(max(math.log(max(value, 1e-9)) / math.log(threshold), 0.0), 1.0)
    grid = Table.grid(padding=(0, 1))
    grid.add_row(ProgressBar(total=1.0, completed=share, width=30), f"{value:.3g} of {threshold:g}")
    return grid


def _agents(picture: Picture) -> RenderableType:
    table = Table(expand=True)
    for heading in ("agent", "runs", "configuration", "lease left", "requests"):
        table.add_column(heading)
    for name, report in picture.agents.items():
        if not isinstance(report, Report):
            table.add_row(name, Text("no answer", style="red"), report.message[:60], "", "")
            continue
        running = report.running
        style = "yellow" if running.role is Role.CANDIDATE else "green"
        left = running.lease_remaining_seconds
        count = report.counters.requests if report.counters else None
        table.add_row(
            report.agent,
            Text(str(running.role), style=style),
            shown(running.config),
            "" if left is None else f"{left:.1f} s",
            "" if count is None else f"{count:,.0f}",
        )
    return table


def agents_line(picture: Picture) -> str:
    """All agents in one line: how many run what, and the shortest lease of a candidate."""
    running = [report.running for report in picture.agents.values() if isinstance(report, Report)]
    candidates = [seen for seen in running if seen.role is Role.CANDIDATE]
    leases = [s.lease_remaining_seconds for s in candidates if s.lease_remaining_seconds is not None]
    lease = f" (lease {min(leases):.1f} s)" if leases else ""
    silent = len(picture.agents) - len(running)
    return (
        f"agents: {len(candidates)} candidate{lease}, {len(running) - len(candidates)} incumbent, "
        f"{silent} silent"
    )


def _history(picture: Picture, most: int) -> RenderableType:
    lines = [f"{event.last:%H:%M:%S} {event.reason}: {event.message}" for event in picture.events[-most:]]
    text = "\n".join(" ".join(one.split()) for one in lines) or "no events yet"
    return Text(text, style="dim", no_wrap=True, overflow="ellipsis")
