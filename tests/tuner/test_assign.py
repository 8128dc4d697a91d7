"""Pairs, coins and arms: deterministic, balanced, and independent of the order of input."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_tuner.assign import (
    AgentLoad,
    Arm,
    Pairing,
    TooFewAgents,
    arms,
    choose_pairs,
    coin,
    experiment_seed,
    match_pairs,
    pairing_hash,
)
from kvtune_tuner.sli import Missing, MissingReason

UNKNOWN = Missing(reason=MissingReason.NO_TRAFFIC, message="no traffic")


def load(name: str, rate: float, hit_rate: float | Missing = 0.5) -> AgentLoad:
    return AgentLoad(name=name, request_rate=rate, hit_rate=hit_rate)


def matched(agents: list[AgentLoad]) -> Pairing:
    found = match_pairs(agents)
    assert isinstance(found, Pairing)
    return found


loads = st.lists(
    st.builds(
        load,
        st.text(alphabet="abcdefgh", min_size=1, max_size=6),
        st.floats(min_value=0.0, max_value=100.0),
        st.one_of(st.just(UNKNOWN), st.floats(min_value=0.0, max_value=1.0)),
    ),
    min_size=2,
    max_size=40,
    unique_by=lambda agent: agent.name,
)


def test_agents_of_like_load_are_paired_and_the_odd_one_is_left_out() -> None:
    agents = [load("a", 1.0), load("b", 10.0), load("c", 1.05), load("d", 9.5), load("e", 100.0)]
    found = matched(agents)
    assert {(pair.first, pair.second) for pair in found.pairs} == {("a", "c"), ("b", "d")}
    assert found.left_out == ("e",)


def test_agents_of_like_load_are_told_apart_by_their_hit_rate() -> None:
    agents = [load("a", 5.0, 0.2), load("b", 5.0, 0.8), load("c", 5.0, 0.21), load("d", 5.0, 0.79)]
    assert {(pair.first, pair.second) for pair in matched(agents).pairs} == {("a", "c"), ("b", "d")}


def test_an_unknown_hit_rate_is_matched_with_another_unknown_one() -> None:
    agents = [load("a", 5.0, UNKNOWN), load("b", 5.0, 0.8), load("c", 5.0, UNKNOWN), load("d", 5.0, 0.1)]
    assert ("a", "c") in {(pair.first, pair.second) for pair in matched(agents).pairs}


@pytest.mark.parametrize("agents", [[], [load("a", 1.0)]])
def test_fewer_than_two_agents_are_a_value_with_a_reason(agents: list[AgentLoad]) -> None:
    found = match_pairs(agents)
    assert isinstance(found, TooFewAgents)
    assert (found.agents, found.reason) == (len(agents), "TooFewAgents")
    assert "fewer than 2" in found.message


@given(loads, st.randoms(use_true_random=False))
def test_every_agent_is_in_one_pair_or_left_out_whatever_the_order(
    agents: list[AgentLoad], order: object
) -> None:
    found = matched(agents)
    names = [name for pair in found.pairs for name in (pair.first, pair.second)]
    assert sorted([*names, *found.left_out]) == sorted(agent.name for agent in agents)
    assert len(found.left_out) == len(agents) % 2
    assert all(pair.first < pair.second and pair.distance >= 0.0 for pair in found.pairs)
    assert [pair.distance for pair in found.pairs] == sorted(pair.distance for pair in found.pairs)
    shuffled = list(agents)
    order.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis draws a random.Random
    assert match_pairs(shuffled) == found


def test_a_thousand_agents_are_paired_closely() -> None:
    rng = np.random.default_rng(9)
    rates, hits = rng.lognormal(1.0, 0.3, 1000).tolist(), rng.uniform(0.4, 0.6, 1000).tolist()
    found = matched([load(f"agent-{j:04}", rates[j], hits[j]) for j in range(1000)])
    assert len(found.pairs) == 500
    distances = [pair.distance for pair in found.pairs]
    assert np.median(distances) < 0.1
    assert np.quantile(distances, 0.9) < 0.5


@pytest.mark.parametrize(
    "agents",
    [
        [load("a", math.nan), load("b", 1.0)],
        [load("a", -1.0), load("b", 1.0)],
        [load("a", math.inf), load("b", 1.0)],
        [load("a", 1.0, 1.5), load("b", 1.0)],
        [load("a", 1.0, math.nan), load("b", 1.0)],
        [load("a", 1.0), load("a", 1.0)],
    ],
)
def test_a_load_that_is_no_load_is_refused(agents: list[AgentLoad]) -> None:
    with pytest.raises(ValueError, match="a"):
        match_pairs(agents)


def test_the_best_pairs_are_chosen() -> None:
    found = matched([load("a", 1.0), load("b", 2.0), load("c", 5.0), load("d", 5.0)])
    assert [(pair.first, pair.second) for pair in choose_pairs(reversed(found.pairs), 1)] == [("c", "d")]
    assert len(choose_pairs(found.pairs, 8)) == 2
    with pytest.raises(ValueError, match="pairsAtOnce"):
        choose_pairs(found.pairs, 0)


PAIRS = [("a", "b"), ("c", "d"), ("e", "f")]


def test_the_coins_are_these_on_every_machine_and_version() -> None:
    assert [coin(7, block=block, pair_index=0) for block in range(12)] == KNOWN_COINS


KNOWN_COINS = [False, True, False, False, False, True, True, False, True, True, True, True]


def test_a_coin_is_fair_over_blocks_pairs_attempts_and_seeds() -> None:
    for tosses in (
        [coin(1, block=block, pair_index=0) for block in range(4000)],
        [coin(1, block=0, pair_index=index) for index in range(4000)],
        [coin(1, block=0, pair_index=0, attempt=attempt) for attempt in range(4000)],
        [coin(seed, block=0, pair_index=0) for seed in range(4000)],
    ):
        assert 0.46 < sum(tosses) / 4000 < 0.54
        changes = sum(a != b for a, b in pairwise(tosses))
        assert 0.46 < changes / 3999 < 0.54


@given(st.integers(min_value=0), st.integers(min_value=0, max_value=10**6))
def test_arms_swap_between_the_epochs_of_a_block(seed: int, block: int) -> None:
    first = arms(seed, block=block, epoch=1, pairs=PAIRS)
    second = arms(seed, block=block, epoch=2, pairs=PAIRS)
    assert first.keys() == second.keys()
    assert all(first[name] is not second[name] for name in first)
    for index, (left, right) in enumerate(PAIRS):
        assert {first[left], first[right]} == {Arm.CANDIDATE, Arm.CONTROL}
        assert (first[right] is Arm.CANDIDATE) == coin(seed, block=block, pair_index=index)
    assert arms(seed, block=block, epoch=1, pairs=PAIRS) == first


def test_a_repeated_block_tosses_new_coins() -> None:
    first = [arms(3, block=block, epoch=1, pairs=PAIRS) for block in range(20)]
    again = [arms(3, block=block, epoch=1, pairs=PAIRS, attempt=1) for block in range(20)]
    assert first != again


@pytest.mark.parametrize("epoch", [0, 3])
def test_an_epoch_other_than_1_or_2_is_refused(epoch: int) -> None:
    with pytest.raises(ValueError, match="epoch"):
        arms(1, block=0, epoch=epoch, pairs=PAIRS)


@pytest.mark.parametrize("pairs", [[("a", "a")], [("a", "b"), ("b", "c")]])
def test_an_agent_in_two_places_is_refused(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(ValueError, match="twice"):
        arms(1, block=0, epoch=1, pairs=pairs)


def test_the_pairing_hash_changes_exactly_with_the_partners() -> None:
    same = pairing_hash([("f", "e"), ("a", "b"), ("d", "c")])
    assert same == pairing_hash(PAIRS)
    assert len(same) == 16
    assert same != pairing_hash([("a", "c"), ("b", "d"), ("e", "f")])
    assert same != pairing_hash(PAIRS[:2])


def test_a_seed_belongs_to_a_policy_and_a_number() -> None:
    seeds = {experiment_seed(uid, number) for uid in ("a", "b") for number in range(50)}

    assert len(seeds) == 100
    assert experiment_seed("a", 1) == experiment_seed("a", 1)
