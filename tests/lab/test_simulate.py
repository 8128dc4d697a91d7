"""Simulations of one cache on a trace."""

import pytest

from kvtune_lab.setups import Order, Policy
from kvtune_lab.simulate import packed, simulate
from kvtune_lab.traffic import Request

TWO_SESSIONS = [(1, 2, 3), (9, 8), (1, 2, 3, 4), (9, 8, 7), (1, 2, 3, 4)]


def requests(*chains: tuple[int, ...]) -> list[Request]:
    """Requests of blocks of 16 tokens, of which the last holds 10."""
    return [
        Request(float(number), chain[0], chain[0], list(chain), 16 * len(chain) - 6, 1)
        for number, chain in enumerate(chains)
    ]


def test_blocks_are_numbered_as_they_come_and_the_last_holds_what_is_left() -> None:
    found = packed(requests((7, 5), (7, 5, 6)), block_tokens=16)
    assert list(found.starts) == [0, 2, 5]
    assert list(found.blocks) == [0, 1, 0, 1, 2]
    assert list(found.tokens) == [16, 10, 16, 16, 10]


def test_with_room_for_all_every_policy_hits_what_was_seen() -> None:
    trace = packed(requests(*TWO_SESSIONS), block_tokens=16)
    for policy in Policy:
        done = simulate(trace, policy, 100)
        assert (done.requests, done.block_references, done.distinct_blocks) == (5, 16, 7)
        assert done.block_hit_rate == pytest.approx(9 / 16)
        assert done.evictions in (0, None)


def test_the_last_half_leaves_out_the_first_requests() -> None:
    done = simulate(packed(requests(*TWO_SESSIONS), block_tokens=16), Policy.LRU, 100)
    assert done.block_hit_rate_last_half == pytest.approx(9 / 11)
    # The third requests hits 3 of 4 blocks, one of them counted as 16 tokens although it held 10 before.
    assert done.token_hit_rate_last_half == pytest.approx((48 + 32 + 58) / (58 + 42 + 58))


def test_a_small_cache_evicts_and_the_optimum_hits_most() -> None:
    trace = packed(requests(*TWO_SESSIONS), block_tokens=16)
    rates = {policy: simulate(trace, policy, 4) for policy in Policy}
    assert rates[Policy.OPT].block_hit_rate == max(done.block_hit_rate for done in rates.values())
    assert rates[Policy.LRU].evictions == 9


def test_orders_differ() -> None:
    trace = packed(requests((1, 2, 3), (9,), (1, 2, 3)), block_tokens=16)
    tail, forward = (simulate(trace, Policy.LRU, 3, order=order) for order in Order)
    assert tail.block_hit_rate == pytest.approx(2 / 7), "the tail has left first"
    assert forward.block_hit_rate == 0, "the head has left first"


def test_a_capacity_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity: 0 is less than 1 block"):
        simulate(packed(requests((1,)), block_tokens=16), Policy.LRU, 0)
