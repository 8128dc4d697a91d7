"""What a run of the demo has shown: a table for people, JSON for programs. Honest where nothing won."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from kvtune_api.codec import dump
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.names import Outcome, OutcomeReason
from kvtune_cli.demo.best_static import BestStatic
from kvtune_cli.demo.lag import HINT_SECONDS, SHOWN_SECONDS, remedy, was_behind
from kvtune_cli.demo.last_act import BREAKER_SECONDS, CANDIDATE_SECONDS, LEASE_SECONDS, LastAct
from kvtune_cli.demo.screen import FIGURE_LABELS, named, shown, shown_labels
from kvtune_cli.demo.story import Told
from kvtune_cli.demo.watching import Figures
from kvtune_tuner.replay import ReplayResult

WIDE_COLUMNS = 110
"""A narrower table wraps its figures' headings, so that outcomes such as Inconclusive(NoData) stay whole."""


def print_summary(
    console: Console, told: Told, replayed: list[ReplayResult], best: BestStatic | None, ledger: Path
) -> None:
    """Print the table, the verdict of the replay and where the ledger is."""
    table = Table(title="kvtune demo", expand=False)
    narrow = console.width < WIDE_COLUMNS
    table.add_column("", overflow="fold")
    table.add_column(shown_labels(told.start), overflow="fold", max_width=14 if narrow else None)
    for heading in FIGURE_LABELS:
        table.add_column(heading, overflow="fold", max_width=5 if narrow else None)
    table.add_column("outcome", overflow="fold")
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
    if best is not None:
        figures = Figures(
            objective=best.objective, hit_rate=best.hit_rate, within_limit=best.share_within_limit
        )
        table.add_row("best static", shown(best.config), *_cells(figures), f"of {best.points}")
    console.print(table)
    for text in _lines(told, replayed, best):
        console.print(text, highlight=False, markup=False, soft_wrap=not console.is_terminal)
    # A folder in two pieces cannot be copied: the terminal folds it.
    console.print(f"ledger: {ledger}", highlight=False, markup=False, soft_wrap=True)


def _lines(told: Told, replayed: list[ReplayResult], best: BestStatic | None) -> list[str]:
    """What is said under the table, a sentence or two a line."""
    lines = []
    if (hint := slow_machine(told)) is not None:
        lines.append(hint)
    if best is None:
        lines.append("best static value: not computed (--with-grid computes it)")
    if promoted_config(told) is None:
        lines.append("No candidate was proven better in this run: every agent keeps the start configuration.")
    lines.append(f"why it stopped: {told.resting}")
    if told.last_act is not None:
        lines += [f"last act: {_bad(told.last_act)}", f"last act: {_kill(told.last_act)}"]
    return [*lines, f"kvtune replay: {_replay(replayed)}"]


def slow_machine(told: Told) -> str | None:
    """The hint that the machine is too slow for the speed; None where nothing points to that."""
    largest, speed = told.largest_lag_scaled_seconds, told.options.speed
    if largest is not None and largest > HINT_SECONDS:
        return was_behind(largest, speed)
    empty = [e.metadata.name for e in told.experiments if e.status.reason is OutcomeReason.NO_DATA]
    if not empty:
        return None
    without = f"{', '.join(empty)} ended without data"
    if largest is None:
        return f"{without}: no agent had counters; if this machine is busy, {remedy(speed)}"
    if largest > SHOWN_SECONDS:
        return f"{without}: {was_behind(largest, speed)}"
    kept = f"agents were at most {largest:,.0f} scaled seconds behind"
    return f"{without}, though {kept}; if this machine is busy, {remedy(speed)}"


def _replay(replayed: list[ReplayResult]) -> str:
    if differences := [text for result in replayed for text in result.differences]:
        return f"differs: {differences}"
    verdicts = sum(result.verdicts for result in replayed)
    what = "a verdict is one look at the tests at a block's end"
    return f"{verdicts} verdicts equal ({what})" if verdicts else f"no verdict to check ({what})"


def _bad(act: LastAct) -> str:
    """How the bad candidate ended, or that it was not seen to end, and why."""
    candidate = f"the bad candidate ({named(act.bad_candidate)})"
    if act.outcome is None:
        return (
            f"{candidate} was not seen to end within {BREAKER_SECONDS:g} s, so the breaker was not shown: "
            f"{act.bad_state or 'the control plane was not seen'}"
        )
    seconds = act.breaker_scaled_seconds
    tripped = f" after {seconds:.0f} scaled seconds" if seconds is not None else ""
    return f"{candidate} ended {act.outcome}{tripped}"


def _kill(act: LastAct) -> str:
    if not act.killed_with_candidates:
        state = f": {act.gentle_state}" if act.gentle_state else ""
        return (
            f"no candidate was seen live again within {CANDIDATE_SECONDS:g} s, so the kill of the control "
            f"plane shows nothing{state}"
        )
    home = act.home_after_wall_seconds
    text = (
        f"some agent was not seen back on its incumbent within {LEASE_SECONDS:g} s"
        if home is None
        else f"{home:.1f} s later every agent was on its incumbent"
    )
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
        "largestLagScaledSeconds": told.largest_lag_scaled_seconds,
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
