"""The demo without its processes: options, policy, when it is over, the last act's candidates, words."""

from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from kvtune_api.codec import parse
from kvtune_api.errors import SpecError
from kvtune_api.knobs import CacheConfig, Knob, point
from kvtune_api.names import ConditionType, Outcome, OutcomeReason, Reason
from kvtune_api.policy import KVCachePolicy
from kvtune_api.ranges import QuantityRange
from kvtune_api.status import Condition, PolicyStatus, Truth
from kvtune_api.wire import Counters, Load, Report, Role, Running
from kvtune_cli.demo.lag import LOOKS, LagGauge, behind, lag
from kvtune_cli.demo.last_act import LastAct, resized
from kvtune_cli.demo.options import DemoOptions
from kvtune_cli.demo.policy import demo_policy, start_config
from kvtune_cli.demo.screen import agents_line, named, screen, shown
from kvtune_cli.demo.story import Stage, Told, nothing_more
from kvtune_cli.demo.summary import as_json, print_summary
from kvtune_cli.demo.watching import Figures, Picture
from kvtune_operator.eventlog import KeptEvent
from kvtune_operator.ports import Unreachable
from kvtune_tuner.model import EventType
from tests.fakes.samples import GIB, cache_config, experiment, policy

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
BOUNDS = parse(QuantityRange, {"min": "14Gi", "max": "114Gi", "largestStep": 4})


def options(**changes: Any) -> DemoOptions:
    return DemoOptions(directory=Path("run"), **changes)


def test_every_wrong_option_is_told_at_once() -> None:
    with pytest.raises(SpecError) as refused:
        options(speed=0.5, agents=1, rate=0, seed=-1, strategy="best", trace=Path("none"))

    told = {problem.path for problem in refused.value.problems}
    assert told == {"--speed", "--agents", "--rate", "--seed", "--strategy", "--trace"}


def test_the_demos_own_policy_starts_poor_and_tunes_three_knobs() -> None:
    start = point(start_config(demo_policy(options())))

    assert set(start) == set(Knob)
    assert start[Knob.CACHE_TTL] == 30
    assert start[Knob.HOST_MEMORY] == 57 * GIB


def test_the_chosen_strategy_is_in_the_policy() -> None:
    assert demo_policy(options(strategy="ladder")).spec.strategy == "Ladder"


@pytest.mark.parametrize(
    ("size_gib", "factor", "wanted_gib"),
    [
        (100.0, 0.25, 100 / 4),
        (57.0, 0.25, 57 / 4),
        (40.0, 0.25, 14.0),
        (57.0, 1.1, 57 * 1.1),
        (114.0, 1.1, 114 / 1.1),
    ],
)
def test_the_last_acts_candidates_are_within_bounds_and_step(
    size_gib: float, factor: float, wanted_gib: float
) -> None:
    host = point(resized(cache_config(host_gib=size_gib), BOUNDS, factor))[Knob.HOST_MEMORY]

    assert host / GIB == pytest.approx(wanted_gib, rel=0.01)
    assert BOUNDS.min.bytes <= host <= BOUNDS.max.bytes
    assert max(host / GIB / size_gib, size_gib / (host / GIB)) <= BOUNDS.largest_step


def test_without_a_tuned_tier_the_last_act_has_no_other_candidate() -> None:
    assert resized(cache_config(), None, 0.25) == cache_config()


def test_a_knob_that_is_not_set_is_a_dash() -> None:
    assert shown(parse(CacheConfig, {"tiers": {"hostMemory": "57Gi"}})) == "- / - / 57 GiB"


def picture(stored: KVCachePolicy | None, *, elapsed: float = 0.0, running: bool = False) -> Picture:
    return Picture(
        elapsed=elapsed,
        policy=stored,
        experiment=experiment() if running else None,
        ended=(),
        agents={},
        candidate=Figures(),
        incumbent=Figures(),
        events=(),
    )


def resting(reason: Reason, truth: Truth = Truth.FALSE) -> KVCachePolicy:
    condition = Condition(
        type=ConditionType.EXPERIMENTING,
        status=truth,
        reason=reason,
        message="because",
        last_transition_time=datetime(2030, 1, 1, tzinfo=UTC),
    )
    return replace(policy(), status=PolicyStatus(conditions=(condition,)))


OVER: dict[str, tuple[Picture, str | None]] = {
    "the control plane has not begun": (picture(None), None),
    "an experiment runs": (picture(resting(Reason.NOTHING_TO_TRY), running=True), None),
    "it waits for traffic": (picture(resting(Reason.NO_TRAFFIC)), None),
    "nothing is left to try": (picture(resting(Reason.NOTHING_TO_TRY)), "NothingToTry: because"),
    "the time is over": (
        picture(resting(Reason.COOLDOWN), elapsed=1e6),
        "the time of the main act is over",
    ),
}


@pytest.mark.parametrize(("seen", "why"), OVER.values(), ids=OVER.keys())
def test_when_the_main_act_is_over(seen: Picture, why: str | None) -> None:
    assert nothing_more(seen, options()) == why


def told(**changes: Any) -> Told:
    values: dict[str, Any] = {
        "options": options(),
        "policy": policy(),
        "start": cache_config(),
        "before": Figures(objective=0.3),
        "after": Figures(),
        "experiments": (),
        "resting": "nothing to try",
        "last_act": None,
        "restored": True,
        "scaled_seconds": 10.0,
    }
    return Told(**(values | changes))


def printed(of: Told) -> str:
    console = Console(width=160, record=True, quiet=False, file=None)
    with console.capture() as capture:
        print_summary(console, of, [], None, Path("state"))
    return capture.get()


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


def last_act(candidates: int, home: float | None) -> LastAct:
    return LastAct(
        bad_candidate=cache_config(),
        outcome="RolledBack(Breaker)",
        breaker_scaled_seconds=70.0,
        killed_with_candidates=candidates,
        home_after_wall_seconds=home,
    )


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


def report(at: float | None, role: Role = Role.INCUMBENT, lease: float | None = None) -> Report:
    running = Running(
        role=role, config=cache_config(), incumbent=cache_config(), lease_remaining_seconds=lease
    )
    return Report(
        agent="agent",
        version="1",
        engine="replay",
        clock=1000.0,
        started_at=0.0,
        running=running,
        supports=(),
        load=Load(span_seconds=600.0),
        counters=None if at is None else Counters(at=at, started_at=0.0),
    )


def test_the_lag_is_that_of_the_slowest_answering_agent() -> None:
    gone = Unreachable(message="gone")

    assert lag([report(990.0), report(700.0), report(None), gone], 1000.0) == 300.0
    assert lag([report(1010.0)], 1000.0) == 0.0
    assert lag([report(None), gone], 1000.0) is None


def test_a_lag_is_told_only_when_it_lasts() -> None:
    gauge = LagGauge()

    assert [gauge.look(seconds) for seconds in (130.0, 20.0, *[200.0] * LOOKS, None)] == [
        *[None] * (LOOKS + 1),
        200.0,
        None,
    ]
    assert gauge.largest == 200.0


def test_without_counters_there_is_no_largest_lag() -> None:
    gauge = LagGauge()
    gauge.look(None)

    assert gauge.largest is None
    assert as_json(told(), [], None, Path("state"))["largestLagScaledSeconds"] is None


@pytest.mark.parametrize(("speed", "other"), [(60.0, "--speed 20"), (20.0, "--speed 6"), (2.0, "--agents 2")])
def test_who_is_behind_is_told_what_to_try(speed: float, other: str) -> None:
    assert behind(500.0, speed) == (
        f"agents are 500 scaled seconds behind: this machine is too slow for {speed:g}x; "
        f"try make demo ARGS='{other}'"
    )


def ended(reason: OutcomeReason) -> Any:
    one = experiment()
    return replace(one, status=replace(one.status, outcome=Outcome.INCONCLUSIVE, reason=reason))


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


def busy() -> Picture:
    """Everything that a screen may have to show, with long words."""
    one = experiment()
    spec = replace(one.spec, why="the reuse model predicts a gain " * 5, predicted_gain=0.0123)
    evidence = replace(one.status.evidence, deltas=7, effect=0.0123, interval=(-0.01, 0.03), e_value=3.2)
    record = replace(one.status, evidence=evidence, power=0.83, estimated_end=1500.0)
    event = KeptEvent(
        first=NOON, last=NOON, policy="chat", type=EventType.NORMAL, reason=Reason.COOLDOWN, message="m " * 90
    )
    status = replace(
        resting(Reason.COOLDOWN).status or PolicyStatus(),
        waiting_for="measuring block 3 " * 9,
        incumbent=cache_config(),
    )
    agents = {f"a{number}": report(500.0, Role.CANDIDATE, 4.2 + number) for number in range(3)}
    return replace(
        picture(replace(policy(), status=status)),
        experiment=replace(one, spec=spec, status=record),
        agents={**agents, "b": report(500.0), "c": report(None), "d": Unreachable(message="gone " * 30)},
        candidate=Figures(objective=0.512, hit_rate=0.61, within_limit=0.93),
        events=(event,) * 6,
        behind_scaled_seconds=12345.0,
    )


def drawn(seen: Picture, rows: int) -> list[str]:
    console = Console(width=80, height=rows, file=StringIO(), force_terminal=True)
    with console.capture() as capture:
        console.print(screen(seen, options(), "kvtune demo", rows=rows))
    return Text.from_ansi(capture.get()).plain.splitlines()


@pytest.mark.parametrize("rows", [24, 44])
def test_the_screen_fits_the_terminal(rows: int) -> None:
    frame = drawn(busy(), rows)
    headings = next(text for text in frame if "hit rate" in text or "hit" in text.split())

    assert len(frame) <= rows
    assert max(len(text) for text in frame) <= 80
    assert "TTL" in headings
    assert "…" not in headings
    assert any("too slow for 60x" in text for text in frame)
    assert all(label in "\n".join(frame) for label in ("time ", "phase ", "waits for ", "mean effect on Y "))


def test_few_rows_show_all_agents_in_one_line() -> None:
    frame = drawn(busy(), 24)

    assert any("agents: 3 candidate (lease 4.2 s), 2 incumbent, 1 silent" in text for text in frame)
    assert agents_line(picture(None)) == "agents: 0 candidate, 0 incumbent, 0 silent"


def test_plain_lines_say_the_lag_again_only_when_it_doubled() -> None:
    console = Console(width=160, file=StringIO())
    stage = Stage(options(), console, None)
    with console.capture() as capture:
        for seconds in (150.0, 160.0, 299.0, 301.0, None):
            stage.show(replace(picture(None), behind_scaled_seconds=seconds), "kvtune demo")

    said = [text for text in capture.get().splitlines() if "too slow" in text]
    assert [text.split()[2] for text in said] == ["150", "301"]


def test_a_sentence_names_only_the_knobs_that_are_set() -> None:
    assert named(parse(CacheConfig, {"tiers": {"hostMemory": "57Gi"}})) == "host memory 57 GiB"


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
