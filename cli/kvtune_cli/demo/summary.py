"""What a run of the demo has shown: a table for people, JSON for programs. Honest where nothing won."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from kvtune_api.codec import dump
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.names import Outcome
from kvtune_cli.demo.best_static import BestStatic
from kvtune_cli.demo.last_act import LastAct
from kvtune_cli.demo.screen import shown
from kvtune_cli.demo.story import Told
from kvtune_cli.demo.watching import Figures
from kvtune_tuner.replay import ReplayResult


def print_summary(
    console: Console, told: Told, replayed: list[ReplayResult], best: BestStatic | None, ledger: Path
) -> None:
    """Print the table, the verdict of the replay and where the ledger is."""
    table = Table(title="kvtune demo", expand=False)
    for heading in ("", "TTL / eviction ratio / host memory", "Y", "hit rate", "within limit", "outcome"):
        table.add_column(heading, overflow="fold")
    table.add_row("start", shown(told.start), *_cells(told.before), "")
    for experiment in told.experiments:
        table.add_row(
            experiment.metadata.name,
            shown(experiment.spec.candidate),
            *_arm(experiment),
            _outcome(experiment),
        )
    promoted = promoted_config(told)
    table.add_row("promoted" if promoted else "end", shown(promoted or told.start), *_cells(told.after), "")
    if best is None:
        table.add_row("best static", "not computed (--with-grid computes it)", "-", "-", "-", "")
    else:
        figures = Figures(
            objective=best.objective, hit_rate=best.hit_rate, within_limit=best.share_within_limit
        )
        table.add_row("best static", shown(best.config), *_cells(figures), f"of {best.points}")
    console.print(table)
    if promoted is None:
        console.print(
            "No candidate was proven better in this run: every agent keeps the start configuration."
        )
    console.print(f"why it stopped: {told.resting}", highlight=False, markup=False, soft_wrap=True)
    _print_last_act(console, told)
    verdicts = sum(result.verdicts for result in replayed)
    differences = [text for result in replayed for text in result.differences]
    console.print(
        f"kvtune replay: {verdicts} verdicts equal" if not differences else f"replay differs: {differences}"
    )
    console.print(f"ledger: {ledger}", highlight=False, soft_wrap=True)


def _print_last_act(console: Console, told: Told) -> None:
    act = told.last_act
    if act is None:
        return
    seconds = act.breaker_scaled_seconds
    tripped = f" after {seconds:.0f} scaled seconds" if seconds is not None else ""
    console.print(f"last act: {shown(act.bad_candidate)} ended {act.outcome}{tripped}", highlight=False)
    console.print(f"last act: {_kill(act)}", highlight=False, soft_wrap=True)


def _kill(act: LastAct) -> str:
    if not act.killed_with_candidates:
        return "no candidate went live again in time, so the kill of the control plane shows nothing"
    home = act.home_after_wall_seconds
    text = "not seen coming home" if home is None else f"{home:.1f} s later every agent was on its incumbent"
    return f"control plane killed with a candidate on {act.killed_with_candidates} agents; {text}"


def promoted_config(told: Told) -> Any:
    """The last configuration that was promoted; None if none was."""
    won = [e for e in told.experiments if e.status.outcome is Outcome.PROMOTED]
    return won[-1].spec.candidate if won else None


def _outcome(experiment: KVCacheExperiment) -> str:
    status = experiment.status
    seen = status.evidence
    effect = f", {seen.effect:+.3f} over {seen.deltas} Deltas" if seen.effect is not None else ""
    return f"{status.outcome}({status.reason}){effect}"


def _arm(experiment: KVCacheExperiment) -> list[str]:
    seen = experiment.status.evidence.candidate
    return _cells(
        Figures(objective=seen.get("objective"), hit_rate=seen.get("hitRate"), within_limit=seen.get("ttft"))
    )


def _cells(figures: Figures) -> list[str]:
    return [
        "-" if value is None else text.format(value)
        for value, text in (
            (figures.objective, "{:.3f}"),
            (figures.hit_rate, "{:.1%}"),
            (figures.within_limit, "{:.1%}"),
        )
    ]


def as_json(
    told: Told, replayed: list[ReplayResult], best: BestStatic | None, ledger: Path
) -> dict[str, Any]:
    """The run as plain data. A figure that is not known is null, never left out and never zero."""
    promoted = promoted_config(told)
    act = told.last_act
    return {
        "seed": told.options.seed,
        "speed": told.options.speed,
        "agents": told.options.agents,
        "strategy": told.options.strategy,
        "trace": str(told.options.trace) if told.options.trace else None,
        "scaledSeconds": told.scaled_seconds,
        "start": dump(told.start),
        "before": _figures(told.before),
        "experiments": [_experiment(e) for e in told.experiments],
        "promoted": dump(promoted) if promoted else None,
        "after": _figures(told.after),
        "bestStatic": None
        if best is None
        else {
            "config": dump(best.config),
            "objective": best.objective,
            "hitRate": best.hit_rate,
            "withinLimit": best.share_within_limit,
            "points": best.points,
        },
        "stoppedBecause": told.resting,
        "lastAct": None
        if act is None
        else {
            "badCandidate": dump(act.bad_candidate),
            "outcome": act.outcome,
            "breakerScaledSeconds": act.breaker_scaled_seconds,
            "killedWithCandidates": act.killed_with_candidates,
            "homeAfterWallSeconds": act.home_after_wall_seconds,
        },
        "restored": told.restored,
        "replay": {
            "verdicts": sum(result.verdicts for result in replayed),
            "differences": [text for result in replayed for text in result.differences],
        },
        "ledger": str(ledger),
    }


def _figures(figures: Figures) -> dict[str, float | None]:
    return {
        "objective": figures.objective,
        "hitRate": figures.hit_rate,
        "withinLimit": figures.within_limit,
        "requests": figures.requests,
    }


def _experiment(experiment: KVCacheExperiment) -> dict[str, Any]:
    status = experiment.status
    seen = status.evidence
    return {
        "name": experiment.metadata.name,
        "strategy": experiment.spec.strategy,
        "candidate": dump(experiment.spec.candidate),
        "incumbent": dump(experiment.spec.incumbent),
        "predictedGain": experiment.spec.predicted_gain,
        "outcome": status.outcome,
        "reason": status.reason,
        "message": status.message,
        "deltas": seen.deltas,
        "effect": seen.effect,
        "sd": seen.sd,
        "eValue": seen.e_value,
        "startedAtScaledSeconds": status.started_at,
    }
