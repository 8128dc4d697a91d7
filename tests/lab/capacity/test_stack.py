"""The LRU curve of one pass is what simulations at each capacity give."""

from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_cache.cache import plain_cache
from kvtune_cache.eviction.policy import Eviction
from kvtune_cache.requests import Requests, serve_all, sums
from kvtune_cache.rules import Rules
from kvtune_lab.capacity.stack import NotChained, array_room, columns, lru_curve, measure, plain_room
from kvtune_lab.compiled import compiled
from kvtune_lab.readers.mooncake import BLOCK_TOKENS, read_mooncake
from tests.lab.capacity.traces import branching, trace
from tests.lab.packed import packed

CONVERSATION = Path(__file__).parents[4] / "shared/traces/mooncake_conversation_trace.jsonl.gz"


def simulated(requests: Requests, capacity: int, first: int) -> tuple[float, float]:
    """Hit rates of tokens and of blocks, of LRU by simulation."""
    found = [0] * (len(requests.starts) - 1)
    serve_all(plain_cache(max(requests.blocks) + 1), Rules(Eviction.LRU, capacity), requests, found)
    total = sums(requests, found, first)
    return total.hit_tokens / total.tokens, total.hit_blocks / total.blocks


@given(branching())
def test_every_capacity_has_the_rates_of_its_simulation(requests: Requests) -> None:
    curve = lru_curve(requests)
    half = (len(requests.starts) - 1) // 2
    for capacity in range(1, curve.distinct_blocks + 1):
        tokens, blocks = simulated(requests, capacity, 0)
        assert (curve.tokens[capacity], curve.blocks[capacity]) == pytest.approx((tokens, blocks))
        tokens, blocks = simulated(requests, capacity, half)
        last_half = (curve.tokens_last_half[capacity], curve.blocks_last_half[capacity])
        assert last_half == pytest.approx((tokens, blocks))


def test_requests_longer_than_the_capacity_keep_their_head() -> None:
    requests = trace([(1, 2, 3, 4, 5), (1, 2, 3, 4, 5), (1, 2, 9), (1, 2, 3)])
    for capacity in range(1, 7):
        assert lru_curve(requests).tokens[capacity] == pytest.approx(simulated(requests, capacity, 0)[0])


def test_no_room_hits_nothing_and_more_than_all_blocks_hits_as_much_as_all() -> None:
    curve = lru_curve(trace([(1, 2), (1, 2)]))
    assert curve.rate(0) == 0
    assert curve.rate(2) == curve.rate(10**9) == 1


def test_the_compiled_pass_counts_the_same() -> None:
    rows = [(0, *range(100 * (r % 3) + 1, 100 * (r % 3) + r + 2)) for r in range(45)]
    requests = trace(rows)
    distinct = max(requests.blocks) + 1
    plain, arrays = plain_room(distinct, len(rows)), array_room(distinct, len(rows))
    assert measure(requests, plain) == compiled(measure)(columns(requests), arrays) == -1
    for one, other in zip(plain, arrays, strict=True):
        assert list(one) == list(other)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([(1, 2), (3, 2)], r"request 2: block 1 \(position 2\) follows block 2 here and another elsewhere"),
        ([(1, 2), (2,)], r"request 2: block 1 \(position 1\) follows nothing here and another elsewhere"),
        ([(1, 2), (1, 3, 2)], r"request 2: block 1 \(position 3\) follows block 2 here"),
    ],
)
def test_blocks_that_are_not_chained_are_refused(rows: list[tuple[int, ...]], says: str) -> None:
    with pytest.raises(NotChained, match=says):
        lru_curve(trace(rows))


def test_a_trace_without_blocks_is_refused() -> None:
    nothing = array("i")
    with pytest.raises(ValueError, match="trace: holds no block"):
        lru_curve(Requests(array("q", [0]), nothing, nothing, array("d"), nothing, nothing, array("d")))
    late = Requests([0, 1, 1], [0], [16], [0.0, 1.0], [1, 1], [0, 0], [0.0, 0.0])
    with pytest.raises(ValueError, match="trace: its last half holds no token"):
        lru_curve(late)


@given(st.integers(1, 40))
def test_a_single_request_hits_nothing(length: int) -> None:
    assert lru_curve(trace([tuple(range(length))])).tokens.max() == 0


def test_golden_values_of_the_conversation_trace() -> None:
    if not CONVERSATION.exists():
        pytest.skip("the Mooncake conversation trace is not beside this checkout (../shared/traces)")
    curve = lru_curve(packed(read_mooncake(CONVERSATION), block_tokens=BLOCK_TOKENS))
    rates = [curve.rate(capacity) for capacity in (1_828, 18_279, 73_116, curve.distinct_blocks)]
    assert rates == pytest.approx([0.054554, 0.293933, 0.385327, 0.398113], abs=5e-7)
