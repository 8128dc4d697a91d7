"""Splits simulated tier by tier: against curves, plain and compiled."""

from itertools import product
from typing import Any, cast

import numpy as np
import pytest

from kvtune_cache.rules import Rules
from kvtune_cache.stack import ON_HOST, TierRules, plain_tiers, serve_tiers
from kvtune_lab.capacity.splits import Split, simulated
from kvtune_lab.capacity.stack import lru_curve
from kvtune_lab.capacity.tiered import TierRates, tier_rates
from kvtune_lab.compiled import as_arrays, compiled
from kvtune_lab.readers.loaded import as_lists, as_requests
from kvtune_lab.setups import Policy
from kvtune_lab.simulate import Way
from tests.lab.capacity.test_plan import LAYOUT
from tests.lab.capacity.traces import skewed

TRACE = skewed(600)


def rates(policy: Policy, host: int, disk: int, way: Way = Way.PLAIN) -> TierRates:
    """Of a device of 50 blocks."""
    return tier_rates(TRACE, policy, device_blocks=50, host_blocks=host, disk_blocks=disk, way=way)


@pytest.mark.parametrize("policy", [Policy.LRU, Policy.ARC])
@pytest.mark.parametrize("disk", [0, 400])
def test_tiers_hit_the_same_plain_and_compiled(policy: Policy, disk: int) -> None:
    assert rates(policy, 150, disk, Way.COMPILED) == rates(policy, 150, disk)


@pytest.mark.parametrize("policy", [Policy.LRU, Policy.ARC])
def test_all_rules_of_tiers_give_the_same_plain_and_compiled(policy: Policy) -> None:
    number, distinct, lists = policy.number, int(max(TRACE.blocks)) + 1, as_lists(TRACE)
    for demotes, threshold, disk in product((0, 1), (1, 2), (0, 60)):
        host = Rules(number, 90, ttl_seconds=150.0, pass_blocks=4, store_threshold=threshold)
        rules = TierRules(Rules(0, 20), host, Rules(number, disk, ttl_seconds=300.0), demotes)
        plain, places = plain_tiers(distinct, rules, 100), [0] * len(lists.blocks)
        serve_tiers(plain, rules, lists, places)
        arrays, found = as_arrays(plain_tiers(distinct, rules, 100)), np.zeros(len(places), np.uint8)
        serve = compiled(serve_tiers, policy=number)
        serve(arrays, rules, as_requests(*TRACE), cast(Any, found))
        assert found.tolist() == places
        for one, other in zip(arrays[:3], plain[:3], strict=True):
            assert list(one.counts) == list(other.counts)
            assert list(one.table.where) == list(other.table.where)
        assert ON_HOST in places


def test_under_lru_device_and_host_hit_what_the_exact_curve_says() -> None:
    curve, found = lru_curve(TRACE), rates(Policy.LRU, 200, 0)
    assert found.device == pytest.approx(curve.rate(50))
    assert found.device + found.host == pytest.approx(curve.rate(200))
    assert found.disk == 0


def test_a_disk_adds_hits_and_takes_none_from_the_tiers_above() -> None:
    alone, found = rates(Policy.LRU, 100, 0), rates(Policy.LRU, 100, 300)
    assert found.disk > 0
    assert found.device >= alone.device and found.host >= alone.host
    assert found.device + found.host + found.disk <= lru_curve(TRACE).rate(10**6) + 1e-9


def test_a_disk_without_a_host_is_written_through_as_a_host_is() -> None:
    host, disk = rates(Policy.LRU, 200, 0), rates(Policy.LRU, 0, 200)
    assert (disk.device, disk.host, disk.disk) == (host.device, 0.0, host.host)


def test_a_simulated_split_keeps_its_cost_and_saves_what_its_tiers_hit() -> None:
    split = Split(
        policy=Policy.S3FIFO,
        device_blocks=50,
        host_blocks=150,
        disk_blocks=0,
        device_hit_rate=0.0,
        host_hit_rate=0.0,
        disk_hit_rate=0.0,
        monthly_cost=7.0,
        prefill_saved=0.0,
    )
    found = simulated(split, TRACE, LAYOUT)
    assert (found.policy, found.host_blocks, found.monthly_cost) == (Policy.S3FIFO, 150, 7.0)
    assert found.hit_rate > found.device_hit_rate > 0
    assert 0 < found.prefill_saved <= found.hit_rate
