"""WorkloadAware: classes, priorities, overrides, and what an eviction costs."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_cache.blocks import NO_BLOCK, RECENT, is_pinned, link, next_request, pin
from kvtune_cache.cache import Cache, plain_cache
from kvtune_cache.classes import class_of
from kvtune_cache.eviction.policy import Eviction
from kvtune_cache.eviction.queues import QUEUES, enqueue
from kvtune_cache.eviction.workload_aware import workload_evict, workload_forget
from kvtune_cache.eviction.workload_rules import NEUTRAL, TO_B, TO_C, WorkloadRules
from kvtune_cache.eviction.workload_scores import note_head, priority
from kvtune_cache.eviction.workload_state import (
    DOCUMENTS,
    OLD_TURNS,
    REQUEST_SPATIAL,
    SPATIAL_PARTS,
    STEPS,
)
from kvtune_cache.requests import Requests, serve
from kvtune_cache.rules import Rules
from kvtune_cache.signals import CLASS, NOW, PROMPT_TOKENS, SIGNATURE, SWITCHED, TURN, Floats
from tests.cache.streams import CHAINS, chained, distinct, packed, residents

WORKLOAD_AWARE = int(Eviction.WORKLOAD_AWARE)
ROOM = Rules(WORKLOAD_AWARE, 100)


def cache_of(rules: WorkloadRules = NEUTRAL, blocks: int = 100) -> Cache:
    return plain_cache(blocks, WORKLOAD_AWARE, workload=rules)


def ask(cache: Cache, blocks: Sequence[int], now: float, rules: Rules = ROOM, kind: int = 0) -> None:
    """Serve one request."""
    count = len(blocks)
    serve(cache, rules, Requests([0, count], list(blocks), [16] * count, [now], [-1], [kind], [0.0]), 0)


def told(cache: Cache, slot: int, value: float) -> Cache:
    """Tell the cache of a signal of its coming requests."""
    cache.request[slot] = value
    return cache


def evict(cache: Cache, now: float) -> int:
    next_request(cache.table)
    cache.request[NOW] = now
    return workload_evict(cache.workload, cache.queues, cache.table, cache.request)


def classes(cache: Cache, blocks: Sequence[int]) -> list[int]:
    return [cache.workload.classes[x] - 1 for x in blocks]


def score(cache: Cache, x: int, now: float) -> float:
    return priority(cache.workload, cache.queues, x, cache.queues.queue[x] - 1, now)


def heads(cache: Cache) -> list[int]:
    """The oldest block of each class that is not pinned, by a walk of its own."""
    found = []
    for k in range(QUEUES):
        slot = cache.queues.newer[k]
        while slot != k and is_pinned(cache.table, slot - QUEUES):
            slot = cache.queues.newer[slot]
        if slot != k:
            found.append(slot - QUEUES)
    return found


@given(CHAINS, st.lists(st.integers(0, 5), min_size=1), st.integers(1, 14), st.integers(0, 9))
def test_law_the_victim_is_the_head_with_the_lowest_priority(
    drawn: list[tuple[int, int]], kinds: list[int], capacity: int, pinned: int
) -> None:
    requests = packed(chained(drawn))
    cache = cache_of(WorkloadRules(rescore_touches=1, sampled_of=1, prior_weight=1), distinct(requests))
    for r in range(len(requests.starts) - 1):
        requests.kinds[r] = kinds[r % len(kinds)]
        serve(cache, Rules(WORKLOAD_AWARE, capacity), requests, r)
        next_request(cache.table)
        held = sorted(residents(cache.table))
        pin(cache.table, held, 0, min(pinned, len(held)))
        now = cache.request[NOW]
        scores = {x: score(cache, x, now) for x in heads(cache)}
        victim = workload_evict(cache.workload, cache.queues, cache.table, cache.request)
        assert (victim == NO_BLOCK) == (not scores)
        assert victim == NO_BLOCK or scores[victim] == min(scores.values())


def test_kind_and_turn_make_the_class_and_turns_are_seen_by_the_blocks() -> None:
    cache = cache_of()
    ask(cache, [0, 1, 2], 0.0, kind=1)
    ask(cache, [0, 1, 3, 4], 100.0, kind=1)  # goes on: the last block was partial, and so is another one now
    assert classes(cache, [0, 1, 3, 4, 2]) == [class_of(1, 2)] * 4 + [class_of(1, 1)]
    ask(cache, [0, 5, 6], 200.0, kind=1)
    assert classes(cache, [0, 5, 6]) == [class_of(1, 1)] * 3, "a shared first block is no earlier turn"
    ask(told(cache, TURN, 9), [7], 300.0, kind=1)
    assert classes(cache, [7]) == [class_of(1, 9)]


def test_a_document_is_a_class_by_its_first_tokens_and_a_given_class_is_taken() -> None:
    cache = cache_of()
    ask(told(cache, SIGNATURE, 33.0), [1], 0.0)
    assert classes(cache, [1]) == [DOCUMENTS + 1]
    ask(told(cache, CLASS, 8), [2], 0.0)
    assert classes(cache, [2]) == [7]


def test_a_session_that_answers_fast_switches_its_topic_and_old_turns_lose_their_reuse() -> None:
    cache = cache_of(TO_C)
    for now, blocks in ((0.0, [0, 1]), (10.0, [0, 1, 2, 3]), (20.0, [0, 1, 2, 3, 4, 5])):
        ask(cache, blocks, now)
    assert classes(cache, range(6)) == [OLD_TURNS] * 4 + [class_of(0, 3)] * 2
    assert score(cache, 0, 20.0) == pytest.approx(
        score(cache, 4, 20.0) - 0.5 * p_next(class_of(0, 3), TO_C.reuse_rate_per_second)
    )
    ask(cache, list(range(8)), 100.0)
    assert classes(cache, range(8)) == [class_of(0, 4)] * 8, "until it takes its time"


def p_next(k: int, rate: float = NEUTRAL.reuse_rate_per_second) -> float:
    """The probability that a class that nobody has seen reuses a block that was just asked for."""
    alone = {"p_reuse_weight": 1.0, "spatial_weight": 0.0, "life_weight": 0.0}
    only = cache_of(WorkloadRules(reuse_rate_per_second=rate, **alone))
    ask(told(only, CLASS, k + 1), [0], 0.0)
    return score(only, 0, 0.0)


def test_a_topic_switch_may_be_told_and_its_inference_may_be_off() -> None:
    cache = cache_of()
    for now, blocks in ((0.0, [0]), (1.0, [0, 1]), (2.0, [0, 1, 2])):
        ask(cache, blocks, now)
    assert OLD_TURNS not in classes(cache, range(3))
    ask(told(cache, SWITCHED, 1), [0, 1, 2, 3], 3.0)
    assert classes(cache, range(4)) == [OLD_TURNS] * 3 + [class_of(0, 4)]


def test_the_spatial_score_is_the_matched_share_raised_for_long_contexts() -> None:
    cache = cache_of()
    state = cache.workload.state
    ask(cache, [0, 1], 0.0)
    assert state[REQUEST_SPATIAL] == 0
    ask(cache, [0, 1, 2, 3], 1.0)
    assert state[REQUEST_SPATIAL] == SPATIAL_PARTS // 2
    ask(told(cache, PROMPT_TOKENS, 513), [0, 1, 4, 5], 2.0)
    assert state[REQUEST_SPATIAL] == int(SPATIAL_PARTS * 0.6)
    ask(cache, [0, 1, 4, 5], 3.0)
    assert state[REQUEST_SPATIAL] == SPATIAL_PARTS, "at most 1"


def life(cache: Cache, age: float, now: float = 0.0) -> float:
    """The part of life of a block that was asked for at `now`."""
    ask(cache, [0], now)
    return score(cache, 0, now + age) / 0.2


LIFE_ALONE = {"p_reuse_weight": 0.0, "spatial_weight": 0.0}


def test_life_is_whole_in_the_window_and_decays_after_it() -> None:
    rules = WorkloadRules(reuse_rate_per_second=0.02, **LIFE_ALONE)
    assert life(cache_of(rules), 100.0) == 1.0
    assert life(cache_of(rules), 200.0) == pytest.approx(0.3679, abs=1e-4)
    slow = WorkloadRules(reuse_rate_per_second=0.001, **LIFE_ALONE)
    assert life(cache_of(slow), 300.0) == 1.0
    assert life(cache_of(slow), 301.0) < 1.0, "300 s at most"


def test_the_window_is_relaxed_after_the_full_hour() -> None:
    known = cache_of(WorkloadRules(reuse_rate_per_second=0.02, hour_phase_seconds=3500.0, **LIFE_ALONE))
    assert life(known, 199.0, now=0.0) == 1.0, "99 s past the hour"
    assert life(known, 199.0, now=1000.0) < 1.0
    unknown = cache_of(WorkloadRules(reuse_rate_per_second=0.02, **LIFE_ALONE))
    assert life(unknown, 199.0, now=0.0) < 1.0


def test_a_class_that_nobody_has_seen_starts_from_the_preset() -> None:
    cache = cache_of()
    for turn in range(50):
        ask(cache, [0, 1, 2], 100.0 * turn, kind=1)
    ask(cache, [10], 5000.0, kind=5)
    unseen = p_next(class_of(5, 1))
    assert unseen == pytest.approx(0.5 * (1 - math.exp(-2.0)) / 1.0), "its share in a window of 2 / rate"
    assert score(cache, 10, 5000.0) == pytest.approx(0.5 * unseen + 0.2)


def test_presets_have_the_published_rates() -> None:
    assert pytest.approx(0.15 / 60) == TO_C.reuse_rate_per_second
    assert pytest.approx(0.16) == TO_B.reuse_rate_per_second
    assert TO_C.reuse_rate_per_second < NEUTRAL.reuse_rate_per_second < TO_B.reuse_rate_per_second
    assert (NEUTRAL.p_reuse_weight, NEUTRAL.spatial_weight, NEUTRAL.life_weight) == (0.5, 0.3, 0.2)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1])
@pytest.mark.parametrize("field", ["p_reuse_weight", "spatial_weight", "reuse_rate_per_second", "memory"])
def test_weights_that_cannot_be_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{field}: .* is not a number of at least"):
        WorkloadRules(**{field: value})


def test_a_number_that_is_given_to_another_block_was_never_seen() -> None:
    cache = cache_of()
    ask(cache, [0, 1], 0.0)
    evict(cache, 1.0)
    evict(cache, 1.0)
    for x in (0, 1):
        workload_forget(cache.workload, x)
    ask(cache, [0, 1], 100.0)
    assert classes(cache, [0, 1]) == [class_of(0, 1)] * 2, "turn 1, not 2"


def filled(blocks: int, kinds: int) -> Cache:
    """A cache with blocks of so many classes, a second apart."""
    cache = cache_of(blocks=blocks)
    for x in range(blocks):
        enqueue(cache.queues, x, x % kinds, float(x))
        link(cache.table, x, RECENT)
    for k in range(kinds):
        note_head(cache.workload, cache.queues, k)
    return cache


def steps(cache: Cache, evictions: int, request: Floats) -> float:
    """Steps of an eviction, on average, while as many blocks are asked for."""
    blocks, state = len(cache.workload.classes), cache.workload.state
    before = state[STEPS]
    for i in range(evictions):
        ask(cache, [blocks - 1 - i], blocks + float(i), Rules(WORKLOAD_AWARE, blocks))
        workload_evict(cache.workload, cache.queues, cache.table, request)
    return (state[STEPS] - before) / evictions


def test_steps_of_an_eviction_do_not_grow_with_blocks_and_little_with_classes() -> None:
    few, many = (steps(cache, 1_000, cache.request) for cache in (filled(10_000, 24), filled(1_000_000, 24)))
    assert many <= few * 1.05
    one, all_of_them = (
        steps(cache, 1_000, cache.request) for cache in (filled(10_000, 1), filled(10_000, 62))
    )
    assert all_of_them <= one + 4
    assert all_of_them <= 10, "a scan of the heads would be 62"
