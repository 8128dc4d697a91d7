"""Quality gates, and that none of them can see which arm is the candidate."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_tuner.compare import PairDelta, Tests
from kvtune_tuner.effect import Prices, objective, pair_delta
from kvtune_tuner.quality import (
    AgentEpoch,
    IssueReason,
    PairEpoch,
    QualityLimits,
    RatioStanding,
    block_drop,
    pair_drop,
    sample_ratio,
    sample_ratio_issue,
    stationarity,
)
from kvtune_tuner.sli import Missing, MissingReason, WindowCounts

LIMITS = QualityLimits()


def window(requests: float = 600.0, hit_rate: float = 0.5, seconds: float = 120.0) -> WindowCounts:
    return WindowCounts(
        seconds=seconds, requests=requests, prompt_tokens=1000.0, hit_tokens=1000.0 * hit_rate
    )


def agent(
    name: str,
    counts: WindowCounts | Missing | None = None,
    *,
    ran: int | None = 7,
    halves: tuple[WindowCounts | Missing, WindowCounts | Missing] | None = None,
) -> AgentEpoch:
    return AgentEpoch(
        agent=name, counts=counts or window(), expected_generation=7, generation=ran, halves=halves
    )


def epoch(candidate: AgentEpoch | None = None, control: AgentEpoch | None = None) -> PairEpoch:
    return PairEpoch(candidate=candidate or agent("a"), control=control or agent("b"))


def swapped(epochs: list[PairEpoch]) -> list[PairEpoch]:
    return [PairEpoch(candidate=one.control, control=one.candidate) for one in epochs]


def test_a_good_pair_is_kept() -> None:
    steady = (window(300.0, seconds=60.0), window(310.0, 0.52, seconds=60.0))
    good = epoch(agent("a", halves=steady), agent("b", halves=steady))
    assert pair_drop([good, good]) is None


GONE = Missing(reason=MissingReason.UNREACHABLE, message="did not answer at 120 s")
DROPS: dict[str, tuple[AgentEpoch, MissingReason]] = {
    "agent gone": (agent("b", GONE), MissingReason.UNREACHABLE),
    "no traffic (case 1)": (
        agent("b", WindowCounts(seconds=120.0, requests=0.0, prompt_tokens=0.0, hit_tokens=0.0)),
        MissingReason.NO_TRAFFIC,
    ),
    "other generation": (agent("b", ran=6), MissingReason.CONFIG_DRIFT),
    "several generations": (agent("b", ran=None), MissingReason.CONFIG_DRIFT),
    "counters began anew": (agent("b", replace(window(), reset=True)), MissingReason.RESTARTED),
    "hits not counted": (
        agent("b", WindowCounts(seconds=120.0, requests=600.0)),
        MissingReason.NOT_AVAILABLE,
    ),
}


@pytest.mark.parametrize("name", DROPS)
@pytest.mark.parametrize("bad_epoch", [0, 1])
def test_one_bad_window_drops_the_pair_for_the_block_whichever_arm_has_it(name: str, bad_epoch: int) -> None:
    bad, reason = DROPS[name]
    epochs = [epoch(), epoch()]
    epochs[bad_epoch] = epoch(control=bad)
    found = pair_drop(epochs)
    assert found is not None
    assert found.reason is reason
    assert "b" in found.message
    assert pair_drop(swapped(epochs)) == found


def test_a_pair_whose_traffic_breaks_inside_a_window_is_dropped() -> None:
    halves = (window(600.0, seconds=60.0), window(200.0, seconds=60.0))
    found = pair_drop([epoch(agent("a", halves=halves), agent("b", halves=halves))])
    assert found is not None
    assert found.reason is MissingReason.NOT_STATIONARY
    assert "requests/s" in found.message


def test_a_pair_whose_hit_rate_breaks_inside_a_window_is_dropped() -> None:
    halves = (window(300.0, 0.2, seconds=60.0), window(300.0, 0.6, seconds=60.0))
    found = pair_drop([epoch(agent("a", halves=halves), agent("b", halves=halves))])
    assert found is not None
    assert "hit rate 0.200 then 0.600" in found.message


def test_one_agents_change_that_the_other_makes_up_for_is_no_break() -> None:
    up = (window(200.0, seconds=60.0), window(600.0, seconds=60.0))
    down = (up[1], up[0])
    assert pair_drop([epoch(agent("a", halves=up), agent("b", halves=down))]) is None


def test_a_few_requests_more_or_less_are_no_break() -> None:
    assert stationarity(window(9.0, seconds=60.0), window(3.0, seconds=60.0), LIMITS) is None


@pytest.mark.parametrize("half", [GONE, WindowCounts(seconds=60.0)])
def test_an_unknown_half_says_nothing(half: WindowCounts | Missing) -> None:
    assert (
        pair_drop([epoch(agent("a", halves=(half, window())), agent("b", halves=(window(), window())))])
        is None
    )


def test_too_few_requests_drop_the_block_with_the_numbers() -> None:
    thin = epoch(agent("a", window(100.0)), agent("b", window(120.0)))
    found = block_drop([[epoch(), thin]])
    assert found is not None
    assert found.reason is MissingReason.TOO_FEW_REQUESTS
    assert "epoch 2: 110 requests per arm" in found.message
    assert block_drop([[epoch(), thin]], QualityLimits(min_requests=100.0)) is None


def test_requests_are_summed_over_the_arms_pairs() -> None:
    thin = epoch(agent("a", window(200.0)), agent("b", window(200.0)))
    assert block_drop([[thin, thin]]) is not None
    assert block_drop([[thin, thin]] * 3) is None


def test_one_starved_arm_drops_the_block_although_the_mean_is_enough() -> None:
    assert block_drop([[epoch(agent("a", window(1900.0)), agent("b", window(100.0)))]]) is not None


def test_a_block_without_pairs_or_request_counts_is_dropped() -> None:
    none_left, uncounted, gone = (
        block_drop([]),
        block_drop([[epoch(control=agent("b", replace(window(), requests=None)))]]),
        block_drop([[epoch(control=agent("b", GONE))]]),
    )
    assert none_left is not None
    assert none_left.reason is MissingReason.NO_DATA
    assert uncounted is not None
    assert uncounted.reason is MissingReason.NOT_AVAILABLE
    assert gone == GONE


windows = st.one_of(
    st.builds(
        window,
        st.floats(min_value=0.0, max_value=2000.0),
        st.floats(min_value=0.0, max_value=1.0),
        st.just(120.0),
    ),
    st.just(GONE),
    st.just(replace(window(), reset=True)),
    st.just(WindowCounts(seconds=120.0, requests=0.0, prompt_tokens=0.0, hit_tokens=0.0)),
)
agents = st.tuples(windows, st.sampled_from([7, 6, None]), st.one_of(st.none(), st.tuples(windows, windows)))


Counts = WindowCounts | Missing
Drawn = tuple[Counts, int | None, tuple[Counts, Counts] | None]


def named(name: str, drawn: Drawn) -> AgentEpoch:
    counts, ran, halves = drawn
    return agent(name, counts, ran=ran, halves=halves)


@given(st.lists(st.tuples(agents, agents, agents, agents), min_size=1, max_size=4))
def test_every_drop_is_blind_to_every_single_pairs_coin(
    data: list[tuple[Drawn, Drawn, Drawn, Drawn]],
) -> None:
    pairs = [
        [
            epoch(named(f"a{j}", drawn[0]), named(f"b{j}", drawn[1])),
            epoch(named(f"b{j}", drawn[2]), named(f"a{j}", drawn[3])),
        ]
        for j, drawn in enumerate(data)
    ]
    expected = [pair_drop(pair) for pair in pairs]
    kept = [pair for pair, drop in zip(pairs, expected, strict=True) if drop is None]
    of_block = block_drop(kept)
    for coins in product([False, True], repeat=len(pairs)):
        turned = [swapped(pair) if coin else pair for pair, coin in zip(pairs, coins, strict=True)]
        assert [pair_drop(pair) for pair in turned] == expected
        assert (
            block_drop([pair for pair, drop in zip(turned, expected, strict=True) if drop is None])
            == of_block
        )


def delta(pair: list[PairEpoch]) -> float | Missing:
    first, second = (
        tuple(
            one.counts
            if isinstance(one.counts, Missing)
            else objective(one.counts, gib_configured=1.0, prices=Prices())
            for one in (side.candidate, side.control)
        )
        for side in pair
    )
    return pair_delta((first[0], first[1]), (second[0], second[1]))


@given(st.lists(st.tuples(agents, agents, agents, agents), max_size=8))
def test_swapped_arm_labels_give_the_same_drops_and_mirrored_tests(
    data: list[tuple[Drawn, Drawn, Drawn, Drawn]],
) -> None:
    tests = [Tests.start(0.02), Tests.start(0.02)]
    for drawn in data:
        pair = [
            epoch(named("a", drawn[0]), named("b", drawn[1])),
            epoch(named("b", drawn[2]), named("a", drawn[3])),
        ]
        if pair_drop(pair) is not None:
            continue
        for side, arms in enumerate((pair, swapped(pair))):
            value = delta(arms)
            assert not isinstance(value, Missing)
            tests[side] = tests[side].add_block([PairDelta(objective=value)])
    assert tests[0].superior.log_products == pytest.approx(tests[1].harm.log_products)
    assert tests[0].harm.log_products == pytest.approx(tests[1].superior.log_products)


def test_a_sample_ratio_without_counts_is_not_available() -> None:
    for counts in ((None, 5.0), (5.0, None), (None, None)):
        found = sample_ratio(*counts)
        assert found.standing is RatioStanding.NOT_AVAILABLE
        assert found.p_value is None
        assert sample_ratio_issue(found) is None


@pytest.mark.parametrize(
    ("counts", "standing"),
    [
        ((0.0, 0.0), RatioStanding.OK),
        ((5.0, 0.0), RatioStanding.OK),
        ((500.0, 520.0), RatioStanding.OK),
        ((5000.0, 5100.0), RatioStanding.OK),
        ((500.0, 350.0), RatioStanding.MISMATCH),
        ((350.0, 500.0), RatioStanding.MISMATCH),
        ((10_000.0, 11_000.0), RatioStanding.MISMATCH),
        ((900.0, 0.0), RatioStanding.MISMATCH),
    ],
)
def test_a_sample_ratio_is_a_mismatch_only_beyond_chance(
    counts: tuple[float, float], standing: RatioStanding
) -> None:
    found = sample_ratio(*counts)
    assert found.standing is standing
    issue = sample_ratio_issue(found)
    assert (issue is not None) == (standing is RatioStanding.MISMATCH)
    if issue is not None:
        assert issue.reason is IssueReason.SAMPLE_RATIO
        assert "new sessions" in issue.message


def test_the_sample_ratio_stays_below_alpha_when_it_is_looked_at_after_every_block() -> None:
    rng = np.random.default_rng(8)
    false_alarms = 0
    for _ in range(2000):
        totals = rng.poisson(200.0, (24, 2)).cumsum(axis=0).tolist()
        false_alarms += any(sample_ratio(a, b).standing is RatioStanding.MISMATCH for a, b in totals)
    assert false_alarms <= 8  # 2 expected at most at alpha .001


@pytest.mark.parametrize("count", [float("nan"), float("inf"), -1.0])
def test_a_session_count_that_is_no_count_is_refused(count: float) -> None:
    with pytest.raises(ValueError, match="session roots"):
        sample_ratio(count, 5.0)


@given(st.floats(min_value=0.0, max_value=1e9), st.floats(min_value=0.0, max_value=1e9))
def test_the_sample_ratio_is_blind_to_the_arm(a: float, b: float) -> None:
    assert sample_ratio(a, b).standing is sample_ratio(b, a).standing
