"""The demo without its processes: options, policy, when it is over, the last act's candidates, words."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from kvtune_api.codec import parse
from kvtune_api.errors import SpecError
from kvtune_api.knobs import CacheConfig, Knob, point
from kvtune_api.names import ConditionType, Outcome, OutcomeReason, Reason
from kvtune_api.policy import KVCachePolicy
from kvtune_api.ranges import QuantityRange
from kvtune_api.status import Condition, PolicyStatus, Truth
from kvtune_cli.demo.last_act import LastAct, resized
from kvtune_cli.demo.options import DemoOptions
from kvtune_cli.demo.policy import demo_policy, start_config
from kvtune_cli.demo.screen import shown
from kvtune_cli.demo.story import Told, nothing_more
from kvtune_cli.demo.summary import as_json, print_summary
from kvtune_cli.demo.watching import Figures, Picture
from tests.fakes.samples import GIB, cache_config, experiment, policy

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
    assert "not computed (--with-grid computes it)" in text
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
        (last_act(2, None), "killed with a candidate on 2 agents; not seen coming home"),
        (last_act(0, None), "no candidate went live again in time"),
    ],
)
def test_the_last_act_claims_only_what_was_seen(act: LastAct, words: str) -> None:
    assert words in printed(told(last_act=act))
