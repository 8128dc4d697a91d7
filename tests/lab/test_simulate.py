"""Simulations of one cache on a trace."""

from itertools import islice
from typing import Any

import pytest

from kvtune_cache.requests import Requests
from kvtune_lab.generator import generate
from kvtune_lab.setups import Order, Policy, Setup
from kvtune_lab.simulate import PLAIN_REFERENCES, Simulator, Way, way_for
from kvtune_lab.simulation import Evictions, Simulation
from kvtune_lab.traffic import Request
from tests.lab.packed import packed

TWO_SESSIONS = [(1, 2, 3), (9, 8), (1, 2, 3, 4), (9, 8, 7), (1, 2, 3, 4)]


def requests(*chains: tuple[int, ...]) -> Requests:
    """Requests of blocks of 16 tokens, of which the last holds 10."""
    return packed(
        (
            Request(float(number), chain[0], chain[0], list(chain), 16 * len(chain) - 6, 1)
            for number, chain in enumerate(chains)
        ),
        block_tokens=16,
    )


def simulated(trace: Requests, policy: Policy, capacity: int, **choices: Any) -> Simulation:
    """What came of one setup."""
    return Simulator(trace).simulate(Setup(policy=policy, capacity_blocks=capacity, **choices))


def test_blocks_are_numbered_as_they_come_and_the_last_holds_what_is_left() -> None:
    found = requests((7, 5), (7, 5, 6))
    assert list(found.starts) == [0, 2, 5]
    assert list(found.blocks) == [0, 1, 0, 1, 2]
    assert list(found.tokens) == [16, 10, 16, 16, 10]


@pytest.mark.parametrize("policy", Policy)
def test_with_room_for_all_every_policy_hits_what_was_seen(policy: Policy) -> None:
    done = simulated(requests(*TWO_SESSIONS), policy, 100)
    assert (done.requests, done.block_references, done.distinct_blocks) == (5, 16, 7)
    assert done.block_hit_rate == pytest.approx(9 / 16)
    assert done.prompt_tokens == 16 * 16 - 5 * 6
    assert done.evictions is None or done.evictions.total == 0


def test_the_last_half_leaves_out_the_first_requests() -> None:
    done = simulated(requests(*TWO_SESSIONS), Policy.LRU, 100)
    assert done.block_hit_rate_last_half == pytest.approx(9 / 11)
    # The third requests hits 3 of 4 blocks, one of them counted as 16 tokens although it held 10 before.
    assert done.token_hit_rate_last_half == pytest.approx((48 + 32 + 58) / (58 + 42 + 58))


def test_a_small_cache_evicts_and_the_optimum_hits_most() -> None:
    trace = requests(*TWO_SESSIONS)
    rates = {policy: simulated(trace, policy, 4) for policy in Policy}
    assert rates[Policy.OPT].block_hit_rate == max(done.block_hit_rate for done in rates.values())
    evictions = rates[Policy.LRU].evictions
    assert evictions is not None
    assert evictions.pressure == 9


def test_what_idles_longer_than_the_ttl_is_missed_and_counted() -> None:
    trace = requests((1, 2), (9,), (1, 2))
    kept, gone = (simulated(trace, Policy.LRU, 9, ttl_seconds=ttl) for ttl in (2.0, 1.5))
    assert kept.block_hit_rate == pytest.approx(2 / 5)
    assert kept.evictions == Evictions(pressure=0, ttl=0, passes=0, wanted_again=0, blocks_written=3)
    assert gone.block_hit_rate == 0
    assert gone.evictions == Evictions(pressure=0, ttl=2, passes=0, wanted_again=2, blocks_written=5)


def test_a_ratio_frees_in_passes() -> None:
    trace = requests((1, 2, 3, 4), (5,), (6,))
    done = simulated(trace, Policy.LRU, 4, eviction_ratio=0.5)
    assert done.evictions == Evictions(pressure=2, ttl=0, passes=1, wanted_again=0, blocks_written=6)


def test_a_threshold_leaves_out_what_is_asked_for_less_often() -> None:
    done = simulated(requests((1,), (1,), (1,)), Policy.LRU, 4, store_threshold=2)
    assert done.block_hit_rate == pytest.approx(1 / 3)
    assert done.evictions is not None
    assert done.evictions.blocks_written == 1


def test_orders_differ() -> None:
    trace = requests((1, 2, 3), (9,), (1, 2, 3))
    tail, forward = (simulated(trace, Policy.LRU, 3, order=order) for order in Order)
    assert tail.block_hit_rate == pytest.approx(2 / 7), "the tail has left first"
    assert forward.block_hit_rate == 0, "the head has left first"


@pytest.mark.parametrize("policy", [Policy.LRU, Policy.OPT])  # the others: tests of the cache
def test_compiled_and_plain_runs_are_the_same(policy: Policy) -> None:
    trace = requests(*generated(seed=1, count=300))
    setups = [Setup(policy=policy, capacity_blocks=capacity) for capacity in (40, 400)]
    plain, compiled = Simulator(trace, Way.PLAIN), Simulator(trace, Way.COMPILED)
    assert [plain.simulate(setup) for setup in setups] == [compiled.simulate(setup) for setup in setups]
    assert not plain.compiles(policy)
    assert not compiled.compiles(policy), "it is kept"


def generated(*, seed: int, count: int) -> list[tuple[int, ...]]:
    """Chains of blocks of generated chat."""
    return [tuple(r.blocks) for r in islice(generate(requests_per_second=5.0, seed=seed), count)]


def test_much_work_is_compiled() -> None:
    assert way_for(PLAIN_REFERENCES) is Way.PLAIN
    assert way_for(PLAIN_REFERENCES + 1) is Way.COMPILED


def test_without_a_token_in_the_last_half_there_is_no_hit_rate() -> None:
    cold = requests((1, 2), (3, 4))._replace(tokens=[16, 10, 0, 0])
    with pytest.raises(ValueError, match="trace: its last half holds no token"):
        simulated(cold, Policy.LRU, 9)
