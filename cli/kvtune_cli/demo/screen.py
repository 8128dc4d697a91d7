"""Draw the demo: one picture -> one screen of the terminal, or one line where there is no terminal."""

import math

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.knobs import CacheConfig, Knob, point, written
from kvtune_api.policy import PolicySpec
from kvtune_api.wire import Report, Role
from kvtune_cli.demo.options import DemoOptions
from kvtune_cli.demo.watching import Figures, Picture


def screen(picture: Picture, options: DemoOptions, title: str) -> RenderableType:
    """The whole screen."""
    parts: list[RenderableType] = [_head(picture, options)]
    if picture.experiment is not None:
        parts.append(_experiment(picture, picture.experiment))
    parts += [_agents(picture), _history(picture)]
    return Panel(Group(*parts), title=title, border_style="cyan")


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


def _head(picture: Picture, options: DemoOptions) -> RenderableType:
    status = picture.policy.status if picture.policy else None
    grid = Table.grid(padding=(0, 2))
    total = options.scaled_seconds
    clock = f"{picture.elapsed:,.0f} of {total:,.0f} scaled seconds ({options.speed:g}x)"
    grid.add_row("time", clock)
    grid.add_row("phase", Text(str(status.phase) if status else "starting", style="bold"))
    grid.add_row("waits for", (status.waiting_for if status else "") or "-")
    if status and status.incumbent:
        grid.add_row("incumbent", shown(status.incumbent))
    return grid


def shown(config: CacheConfig) -> str:
    """TTL, eviction ratio and host memory in one short line; a dash for a knob that is not set."""
    values = point(config)
    return " / ".join(brief(knob, values[knob]) if knob in values else "-" for knob in Knob)


def brief(knob: Knob, value: float) -> str:
    """A knob's value as short as people say it; sizes in GiB."""
    return f"{value / 2**30:.4g} GiB" if knob is Knob.HOST_MEMORY else written(knob, value)


def _experiment(picture: Picture, experiment: KVCacheExperiment) -> RenderableType:
    spec, record = experiment.spec, experiment.status
    table = Table(
        title=f"{experiment.metadata.name} ({spec.strategy}): {spec.why}", expand=True, title_justify="left"
    )
    for heading in (
        "",
        *(str(knob) for knob in point(spec.incumbent)),
        "Y",
        "hit rate",
        _limit(spec.policy_spec),
    ):
        table.add_column(heading, justify="left" if not heading else "right")
    table.add_row("incumbent", *_knobs(spec.incumbent), *_figures(picture.incumbent))
    table.add_row(
        "candidate", *_candidate_knobs(spec.incumbent, spec.candidate), *_figures(picture.candidate)
    )
    seen = record.evidence
    grid = Table.grid(padding=(0, 2))
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
    return Group(table, grid)


def _origin(picture: Picture) -> float:
    """Unix second of scaled second 0, from any agent's clock."""
    clocks = [r.clock for r in picture.agents.values() if isinstance(r, Report)]
    return max(clocks, default=picture.elapsed) - picture.elapsed


def _limit(spec: PolicySpec) -> str:
    return f"TTFT <= {spec.targets.ttft.limit}" if spec.targets.ttft else "TTFT"


def _knobs(config: CacheConfig) -> list[str]:
    return [brief(knob, value) for knob, value in point(config).items()]


def _candidate_knobs(incumbent: CacheConfig, candidate: CacheConfig) -> list[str]:
    """The candidate's knobs with the size of each step."""
    before = point(incumbent)
    cells = []
    for knob, value in point(candidate).items():
        factor = value / before[knob] if before.get(knob) else 1.0
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


def _history(picture: Picture) -> RenderableType:
    lines = [f"{event.last:%H:%M:%S} {event.reason}: {event.message}" for event in picture.events[-5:]]
    return Text("\n".join(text[:160] for text in lines) or "no events yet", style="dim")
