"""What the demo says at its end, and that it claims only what was seen."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from kvtune_api.names import Outcome, OutcomeReason
from kvtune_cli.demo.last_act import LastAct
from kvtune_cli.demo.summary import as_json, print_summary
from kvtune_cli.demo.watching import Figures
from tests.cli.demo_runs import ended, last_act, printed, told
from tests.fakes.samples import experiment


def test_if_nothing_wins_it_says_so() -> None:
    text = printed(told())

    assert "No candidate was proven better in this run" in text
    assert "best static value: not computed (--with-grid computes it)" in text
    assert as_json(told(), [], None, Path("state"))["promoted"] is None


def test_a_figure_that_is_not_known_is_null() -> None:
    data = as_json(told(), [], None, Path("state"))

    assert data["after"] == {"objective": None, "hitRate": None, "withinLimit": None, "requests": 0.0}
    assert data["bestStatic"] is None
    assert data["lastAct"] is None


def test_a_winner_is_in_the_table_with_its_outcome() -> None:
    won = experiment()
    status = replace(won.status, outcome=Outcome.PROMOTED, reason=OutcomeReason.SUPERIOR)
    text = printed(told(experiments=(replace(won, status=status),)))

    assert "Promoted(Superior)" in text
    assert "No candidate was proven better" not in text


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (
            last_act(2, 4.0),
            "killed with a candidate on 2 agents; 4.0 s later every agent was on its incumbent",
        ),
        (last_act(2, None), "killed with a candidate on 2 agents; some agent was not seen back on"),
        (last_act(0, None), "no candidate was seen live again within 6 s, so the kill"),
        (
            replace(last_act(0, None), outcome=None, bad_state="no experiment was running (Idle: cooldown)"),
            "the bad candidate (TTL 30s, ratio 0.3, host memory 57 GiB) was not seen to end within 14 s, "
            "so the breaker was not shown: no experiment was running (Idle: cooldown)",
        ),
    ],
)
def test_the_last_act_claims_only_what_was_seen(act: LastAct, words: str) -> None:
    assert words in printed(told(last_act=act))


def test_a_run_without_verdicts_has_none_to_check() -> None:
    text = printed(told())

    assert "kvtune replay: no verdict to check (a verdict is one look at the tests at a block's end)" in text


def test_the_lines_under_the_table_fit_a_terminal() -> None:
    out = StringIO()
    console = Console(width=80, height=24, file=out, force_terminal=True)
    act = replace(last_act(0, None), outcome=None, bad_state="no experiment was running", gentle_state="Idle")

    print_summary(console, told(last_act=act, resting="because " * 30), [], None, Path("state"))

    assert max(len(text) for text in out.getvalue().splitlines() if "\x1b" not in text) <= 80


SLOW: dict[str, tuple[float | None, OutcomeReason, str | None]] = {
    "far behind": (301.0, OutcomeReason.MAX_PAIRS, "agents were up to 301 scaled seconds behind"),
    "behind, and no data": (
        200.0,
        OutcomeReason.NO_DATA,
        "without data: agents were up to 200 scaled seconds",
    ),
    "no data, though hardly behind": (40.0, OutcomeReason.NO_DATA, "though agents were at most 40 scaled"),
    "no data and no counters": (None, OutcomeReason.NO_DATA, "without data: no agent had counters"),
    "a machine that keeps up": (60.0, OutcomeReason.MAX_PAIRS, None),
}


@pytest.mark.parametrize(("largest", "reason", "words"), SLOW.values(), ids=SLOW.keys())
def test_the_summary_says_that_the_machine_is_too_slow(
    largest: float | None, reason: OutcomeReason, words: str | None
) -> None:
    run = told(largest_lag_scaled_seconds=largest, experiments=(ended(reason),))
    text = printed(run)

    assert ("--speed 20" in text) == (words is not None)
    assert words is None or words in text
    assert as_json(run, [], None, Path("state"))["largestLagScaledSeconds"] == largest


def test_a_table_of_80_columns_keeps_outcomes_whole() -> None:
    console = Console(width=80, file=StringIO())
    runs = tuple(
        replace(ended(reason), metadata=replace(experiment().metadata, name=f"chat-0000{number}"))
        for number, reason in enumerate((OutcomeReason.NO_DATA, OutcomeReason.SAMPLE_RATIO))
    )
    with console.capture() as capture:
        print_summary(console, told(experiments=runs, after=Figures(hit_rate=0.5)), [], None, Path("state"))

    table = [text for text in capture.get().splitlines() if text.startswith(("│", "┃", "┏"))]
    assert all(len(text) <= 80 for text in table)
    assert any("Inconclusive(NoData)" in text for text in table)
