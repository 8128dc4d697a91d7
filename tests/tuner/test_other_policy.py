"""Eviction policies are tried one by one, alone, in the user's order, and each once under one workload."""

import pytest

from kvtune_api.knobs import CacheConfig, EvictionPolicy, Knob, number_of
from kvtune_api.policy import PolicySpec, Strategy
from kvtune_api.status import Trial
from kvtune_api.wire import Report
from kvtune_tuner.candidate import TRUSTED_GAIN, next_candidate
from kvtune_tuner.configs import with_values
from kvtune_tuner.ladder import propose_by_ladder
from kvtune_tuner.other_policy import propose_by_switch
from kvtune_tuner.proposal import Candidate, NothingToTry
from kvtune_tuner.propose import propose_by_optuna
from kvtune_tuner.reuse_proposal import propose_by_reuse
from tests.tuner.proposal_cases import NUMERIC, chat_report, knobs_of, made, policy, request, trial

LRU, OURS, ARC = EvictionPolicy.LRU, EvictionPolicy.REUSE_AWARE, EvictionPolicy.ARC
SPEC = policy(knobs_of(only=[*NUMERIC, Knob.EVICTION_POLICY]))


def _tried(candidate: EvictionPolicy, ending: str, *, incumbent: CacheConfig, number: int = 1) -> Trial:
    config = made(*_numbers(incumbent), policy=candidate)
    return trial(number, config, ending, incumbent=incumbent, strategy=Strategy.LADDER)


def _numbers(config: CacheConfig) -> tuple[float, float, float]:
    assert config.cache_ttl and config.eviction_ratio and config.tiers.host_memory
    return config.cache_ttl.seconds, config.eviction_ratio, config.tiers.host_memory.gib


def _switch(spec: PolicySpec, incumbent: CacheConfig, *trials: Trial) -> Candidate | NothingToTry:
    return propose_by_switch(request(spec, incumbent=incumbent, trials=trials))


def test_the_first_of_the_users_choices_that_does_not_run_is_tried_alone() -> None:
    found = _switch(SPEC, made(policy=LRU))

    assert isinstance(found, Candidate)
    assert found.config == made(policy=OURS)
    assert (found.strategy, found.predicted_gain) == (Strategy.LADDER, None)
    assert found.why == "evictionPolicy LRU -> ReuseAware: another eviction policy alone"


@pytest.mark.parametrize("ending", ["rejected", "rolled back", "undecided"])
def test_one_that_lost_is_not_tried_again_because_another_knob_has_moved(ending: str) -> None:
    lost = _tried(OURS, ending, incumbent=made(policy=LRU))

    found = _switch(SPEC, made(120, policy=LRU), lost)

    assert isinstance(found, Candidate)
    assert found.config == made(120, policy=ARC)


def test_one_that_was_replaced_is_not_tried_again() -> None:
    won = _tried(OURS, "promoted", incumbent=made(policy=LRU))
    lost = _tried(ARC, "undecided", incumbent=made(policy=OURS), number=2)

    found = _switch(SPEC, made(policy=OURS), won, lost)

    assert isinstance(found, NothingToTry)
    assert found.reason == "each of 3 eviction policies runs or has lost"


@pytest.mark.parametrize("ending", ["no data", "aborted"])
def test_one_without_a_verdict_is_tried_again(ending: str) -> None:
    found = _switch(SPEC, made(policy=LRU), _tried(OURS, ending, incumbent=made(policy=LRU)))

    assert isinstance(found, Candidate)
    assert found.config.eviction_policy is OURS


def test_without_the_knob_there_is_no_other_policy() -> None:
    assert isinstance(_switch(policy(), made()), NothingToTry)


def test_the_ladder_tries_policies_after_all_knobs_together_and_before_single_ones() -> None:
    together = propose_by_ladder(request(SPEC, incumbent=made(policy=LRU)))
    assert isinstance(together, Candidate)
    assert together.config == made(120, 0.075, 228, policy=LRU)
    lost = trial(1, together.config, "undecided", incumbent=made(policy=LRU), strategy=Strategy.LADDER)

    found = propose_by_ladder(request(SPEC, incumbent=made(policy=LRU), trials=[lost]))

    assert isinstance(found, Candidate)
    assert found.config == made(policy=OURS)


def _pool(runs: CacheConfig) -> list[Report]:
    return [chat_report("a", runs=runs), chat_report("b", runs=runs)]


def test_the_reuse_model_keeps_the_policy_and_says_whose_order_it_assumes() -> None:
    incumbent = made(policy=OURS)

    found = propose_by_reuse(request(SPEC, incumbent=incumbent, reports=_pool(incumbent)))

    assert isinstance(found, Candidate)
    assert found.config.eviction_policy is OURS
    assert found.config != incumbent
    assert found.why.endswith(", as if ReuseAware were LRU")


def test_auto_tries_other_policies_once_the_reuse_model_has_no_more_to_say() -> None:
    incumbent = made(policy=LRU)
    for _ in range(20):
        asked = request(SPEC, incumbent=incumbent, reports=_pool(incumbent))
        found = next_candidate(asked)
        assert isinstance(found, Candidate)
        if found.strategy is not Strategy.REUSE_MODEL:
            break
        incumbent = found.config
    assert incumbent != made(policy=LRU)
    assert found.config == made(*_numbers(incumbent), policy=OURS)
    assert found.predicted_gain is None, "the model predicts nothing across policies"


def test_optuna_may_choose_any_policy_and_nothing_else() -> None:
    spec = policy(knobs_of(only=[*NUMERIC, Knob.EVICTION_POLICY]), strategy=Strategy.OPTUNA)
    asked = [propose_by_optuna(request(spec, incumbent=made(policy=LRU), seed=seed)) for seed in range(12)]

    chosen = {one.config.eviction_policy for one in asked if isinstance(one, Candidate)}

    assert chosen == {LRU, OURS, ARC}


def test_auto_follows_small_gains_of_the_model_under_another_policy_than_lru_after_the_policies() -> None:
    incumbent = made(policy=LRU)
    for _ in range(20):
        asked = request(SPEC, incumbent=incumbent, reports=_pool(incumbent))
        found = propose_by_reuse(asked)
        assert isinstance(found, Candidate) and found.predicted_gain is not None
        if found.predicted_gain < TRUSTED_GAIN:
            break
        assert next_candidate(asked).config == found.config
        incumbent = found.config
    unknown = made(*_numbers(incumbent), policy=ARC)
    asked = request(SPEC, incumbent=unknown, reports=_pool(unknown))

    assert propose_by_reuse(asked).config == with_values(found.config, {Knob.EVICTION_POLICY: number_of(ARC)})
    other = next_candidate(asked)
    assert isinstance(other, Candidate) and other.config.eviction_policy is LRU
    assert other.config.tiers == incumbent.tiers


def test_agents_that_run_a_policy_nobody_asked_for_count_as_running_it() -> None:
    numbers = policy(knobs_of(only=NUMERIC))
    asked = request(numbers, incumbent=made(), reports=_pool(made(policy=OURS)))

    found = propose_by_reuse(asked)

    assert isinstance(found, Candidate)
    assert found.why.endswith(", as if ReuseAware were LRU")


def test_auto_follows_large_gains_of_the_model_under_lru_alone() -> None:
    by = {}
    for incumbent in (made(policy=LRU), made(policy=OURS)):
        predicted = propose_by_reuse(request(SPEC, incumbent=incumbent, reports=_pool(incumbent)))
        assert isinstance(predicted, Candidate) and (predicted.predicted_gain or 0.0) > 2 * TRUSTED_GAIN
        found = next_candidate(request(SPEC, incumbent=incumbent, reports=_pool(incumbent)))
        assert isinstance(found, Candidate)
        by[incumbent.eviction_policy] = found.strategy

    assert by == {LRU: Strategy.REUSE_MODEL, OURS: Strategy.LADDER}


def test_a_policy_comes_with_a_ttl_that_leaves_it_something_to_choose() -> None:
    """Recency keeps a block for 69 s there, so that a TTL of 120 s takes nearly all choice away."""
    short, long = made(120, 0.1, 114, policy=LRU), made(480, 0.1, 114, policy=LRU)

    found, alone = (
        propose_by_switch(request(SPEC, incumbent=one, reports=_pool(one))) for one in (short, long)
    )

    assert isinstance(found, Candidate) and isinstance(alone, Candidate)
    assert found.config == made(480, 0.1, 114, policy=OURS)
    assert found.why == (
        "cacheTTL 120s -> 480s, evictionPolicy LRU -> ReuseAware: a policy chooses in a full tier,"
        " and this one holds what the last 69 s asked for"
    )
    assert alone.config == made(480, 0.1, 114, policy=OURS)
    assert alone.why.endswith("another eviction policy alone")


def test_no_policy_is_tried_in_a_tier_that_no_ttl_within_a_step_lets_fill() -> None:
    wide = made(30, 0.1, 228, policy=LRU)

    found = propose_by_switch(request(SPEC, incumbent=wide, reports=_pool(wide)))

    assert isinstance(found, NothingToTry)
    assert found.reason.endswith("no eviction policy has anything to choose")


def test_a_policy_is_tried_alone_where_the_ttl_is_not_tuned() -> None:
    spec = policy(knobs_of(only=[Knob.HOST_MEMORY, Knob.EVICTION_POLICY]))
    incumbent = made(None, None, 57, policy=LRU)
    runs = made(60, 0.1, 57, policy=LRU)

    found = propose_by_switch(request(spec, incumbent=incumbent, reports=_pool(runs)))

    assert isinstance(found, Candidate)
    assert found.config == made(None, None, 57, policy=OURS)
