"""What can be simulated, and the grid of a sweep."""

from dataclasses import asdict
from typing import Any

import pytest

from kvtune_cache.eviction.names import NUMBERS
from kvtune_lab.setups import Grid, Order, Policy, Setup, SetupError, setup_from

LRU = Setup(policy=Policy.LRU, capacity_blocks=10)


def test_every_policy_but_the_optimum_is_one_of_the_cache() -> None:
    numbers = {policy.value: policy.number for policy in Policy if policy is not Policy.OPT}
    assert numbers == NUMBERS


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"capacity_blocks": 0}, "capacity: 0 is less than 1 block"),
        ({"ttl_seconds": 0.0}, "ttl: 0.0 s is not a length of time above 0"),
        ({"ttl_seconds": -1.0}, "ttl: -1.0 s is not"),
        ({"ttl_seconds": float("nan")}, "ttl: nan s is not"),
        ({"ttl_seconds": float("inf")}, "ttl: inf s is not"),
        ({"eviction_ratio": 0.0}, r"eviction-ratio: 0.0 is not within \(0, 1\]"),
        ({"eviction_ratio": 1.01}, "eviction-ratio: 1.01 is not"),
        ({"eviction_ratio": float("nan")}, "eviction-ratio: nan is not"),
        ({"store_threshold": 0}, "store-threshold: 0 is not from 1 to 255"),
        ({"store_threshold": 256}, "store-threshold: 256 is not from 1 to 255"),
        ({"policy": Policy.OPT, "order": Order.FORWARD}, "order: forward: OPT takes no --order"),
        ({"policy": Policy.OPT, "ttl_seconds": 90.0}, "ttl: 90 s: OPT takes no --ttl"),
        ({"policy": Policy.OPT, "eviction_ratio": 0.1}, "eviction-ratio: 0.1: OPT takes no --eviction-ratio"),
        ({"policy": Policy.OPT, "store_threshold": 2}, "store-threshold: 2: OPT takes no --store-threshold"),
    ],
)
def test_a_wrong_setup_is_told(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(SetupError, match=says):
        Setup(**{"policy": Policy.LRU, "capacity_blocks": 10, **wrong})


@pytest.mark.parametrize(
    ("ratio", "capacity", "blocks"), [(None, 10, 0), (0.1, 10, 1), (0.25, 10, 2), (0.01, 10, 1), (1, 10, 10)]
)
def test_blocks_of_a_pass(ratio: float | None, capacity: int, blocks: int) -> None:
    setup = Setup(policy=Policy.LRU, capacity_blocks=capacity, eviction_ratio=ratio)
    assert setup.pass_blocks == blocks


def test_a_setup_is_read_back_from_plain_data() -> None:
    setup = Setup(policy=Policy.ARC, capacity_blocks=3, ttl_seconds=1.5, order=Order.FORWARD)
    assert setup_from(asdict(setup)) == setup


def test_a_grid_is_the_product_of_its_choices_each_once_and_the_optimum_by_capacity_alone() -> None:
    grid = Grid(
        policies=[Policy.LRU, Policy.OPT, Policy.LRU],
        capacities_blocks=[10, 20, 10],
        ttls_seconds=[None, 90.0],
        eviction_ratios=[None, 0.1],
    )
    setups = grid.setups()
    assert len(setups) == len(set(setups)) == 2 * 2 * 2 + 2
    assert setups[0] == LRU
    assert setups[-1] == Setup(policy=Policy.OPT, capacity_blocks=20)
