"""The demo without its processes: options, policy, when it is over, the last act's candidates, words."""

from pathlib import Path

import pytest

from kvtune_api.codec import parse
from kvtune_api.errors import SpecError
from kvtune_api.knobs import CacheConfig, Knob, point, written
from kvtune_api.names import Reason
from kvtune_api.ranges import QuantityRange
from kvtune_cli.demo.last_act import resized
from kvtune_cli.demo.policy import demo_policy, start_config
from kvtune_cli.demo.screen import named, shown, shown_labels
from kvtune_cli.demo.story import nothing_more
from kvtune_cli.demo.watching import Picture
from tests.cli.demo_runs import options, picture, resting
from tests.fakes.samples import GIB, cache_config

BOUNDS = parse(QuantityRange, {"min": "14Gi", "max": "114Gi", "largestStep": 4})


def test_every_wrong_option_is_told_at_once() -> None:
    with pytest.raises(SpecError) as refused:
        options(speed=0.5, agents=1, rate=0, seed=-1, strategy="best", trace=Path("none"))

    told = {problem.path for problem in refused.value.problems}
    assert told == {"--speed", "--agents", "--rate", "--seed", "--strategy", "--trace"}


def test_the_demos_own_policy_starts_poor_and_tunes_every_knob() -> None:
    start = point(start_config(demo_policy(options())))

    assert set(start) == set(Knob)
    assert start[Knob.STORE_THRESHOLD] == 1
    assert written(Knob.EVICTION_POLICY, start[Knob.EVICTION_POLICY]) == "FIFO"
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
    host_alone = parse(CacheConfig, {"tiers": {"hostMemory": "57Gi"}})

    assert shown(host_alone) == "- / - / 57 GiB"
    assert shown_labels(host_alone) == "TTL / ratio / host memory"


def test_a_policy_and_a_threshold_are_shown_where_they_are_set() -> None:
    start = start_config(demo_policy(options()))

    assert shown(start) == "30s / 0.3 / 57 GiB / FIFO / 1"
    assert shown_labels(start) == "TTL / ratio / host memory / eviction / store from"


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


def test_a_sentence_names_only_the_knobs_that_are_set() -> None:
    assert named(parse(CacheConfig, {"tiers": {"hostMemory": "57Gi"}})) == "host memory 57 GiB"
