"""What the reuse model knows nothing of is tried one after the other: policies, then store thresholds."""

from dataclasses import replace

import pytest

from kvtune_api.knobs import CacheConfig, EvictionPolicy, Knob
from kvtune_api.policy import Strategy
from kvtune_api.status import Trial
from kvtune_tuner.candidate import next_candidate
from kvtune_tuner.proposal import Candidate, NothingToTry
from kvtune_tuner.unmodelled import propose_by_threshold, propose_unmodelled
from tests.tuner.proposal_cases import NUMERIC, chat_report, knobs_of, made, policy, request, trial

LRU, OURS, ARC = EvictionPolicy.LRU, EvictionPolicy.REUSE_AWARE, EvictionPolicy.ARC
SPEC = policy(knobs_of(only=tuple(Knob)))


def _stores(threshold: int, policy: EvictionPolicy = LRU) -> CacheConfig:
    return replace(made(policy=policy), store_threshold=threshold)


def _asked(candidate: CacheConfig, ending: str, *, incumbent: CacheConfig, number: int = 1) -> Trial:
    return trial(number, candidate, ending, incumbent=incumbent, strategy=Strategy.LADDER)


def test_the_threshold_goes_one_step_up_alone() -> None:
    found = propose_by_threshold(request(SPEC, incumbent=_stores(1)))

    assert isinstance(found, Candidate)
    assert found.config == _stores(2)
    assert (found.strategy, found.predicted_gain) == (Strategy.LADDER, None)
    assert found.why == "storeThreshold 1 -> 2: another store threshold alone"


def test_one_that_has_lost_is_followed_by_the_step_down_and_then_by_none() -> None:
    up = _asked(_stores(4), "undecided", incumbent=_stores(2))
    down = _asked(_stores(1), "rejected", incumbent=_stores(2), number=2)

    second = propose_by_threshold(request(SPEC, incumbent=_stores(2), trials=[up]))
    third = propose_by_threshold(request(SPEC, incumbent=_stores(2), trials=[up, down]))

    assert isinstance(second, Candidate) and second.config == _stores(1)
    assert isinstance(third, NothingToTry)
    assert third.reason == "each store threshold within one step runs or has lost"


def test_one_that_was_replaced_is_not_tried_again() -> None:
    won = _asked(_stores(2), "promoted", incumbent=_stores(1))

    found = propose_by_threshold(request(SPEC, incumbent=_stores(2), trials=[won]))

    assert isinstance(found, Candidate) and found.config == _stores(4)


def test_without_the_knob_there_is_no_other_threshold() -> None:
    assert isinstance(propose_by_threshold(request()), NothingToTry)


def test_policies_come_before_the_threshold_until_one_has_won() -> None:
    first = propose_unmodelled(request(SPEC, incumbent=_stores(1)))
    won = _asked(_stores(1, OURS), "promoted", incumbent=_stores(1))
    second = propose_unmodelled(request(SPEC, incumbent=_stores(1, OURS), trials=[won]))
    lost = [_asked(_stores(n, OURS), "rejected", incumbent=_stores(1, OURS), number=n) for n in (2, 3)]
    third = propose_unmodelled(request(SPEC, incumbent=_stores(1, OURS), trials=[won, *lost]))

    assert isinstance(first, Candidate) and first.config == _stores(1, OURS)
    assert isinstance(second, Candidate) and second.config == _stores(2, OURS)
    assert isinstance(third, Candidate) and third.config == _stores(1, ARC)


def test_where_all_is_tried_every_reason_is_said() -> None:
    spec = policy(knobs_of(only=NUMERIC))

    found = propose_unmodelled(request(spec))

    assert isinstance(found, NothingToTry)
    assert found.reason == "no other eviction policy is among the choices; no store threshold is tuned"


@pytest.mark.parametrize("threshold", [1, 2])
def test_auto_tries_the_threshold_once_the_reuse_model_has_no_more_to_say(threshold: int) -> None:
    spec = policy(knobs_of(only=[*NUMERIC, Knob.STORE_THRESHOLD]))
    incumbent = replace(made(), store_threshold=threshold)
    for _ in range(20):
        found = next_candidate(request(spec, incumbent=incumbent, reports=[chat_report(runs=incumbent)]))
        assert isinstance(found, Candidate)
        if found.strategy is not Strategy.REUSE_MODEL:
            break
        incumbent = found.config
    assert found.config == replace(incumbent, store_threshold=2 * threshold)
    assert found.predicted_gain is None, "the model predicts nothing across thresholds"
