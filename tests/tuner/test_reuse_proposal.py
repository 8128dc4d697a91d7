"""The reuse model proposes what it predicts to be worth an experiment, and steps back when it loses."""

import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from kvtune_api.knobs import CacheConfig, Knob
from kvtune_api.policy import Strategy
from kvtune_tuner.box import step_box
from kvtune_tuner.configs import distance
from kvtune_tuner.proposal import Candidate, NothingToTry
from kvtune_tuner.reuse_model import Prediction, Reuse, pool, predict
from kvtune_tuner.reuse_proposal import propose_by_reuse
from tests.tuner.proposal_cases import (
    CHAT_PRICES,
    NOW,
    chat_report,
    knobs_of,
    made,
    policy,
    request,
    trial,
)


def _objective(config: CacheConfig) -> float:
    reuse = pool([chat_report()])
    assert isinstance(reuse, Reuse)
    found = predict(reuse, CHAT_PRICES, config)
    assert isinstance(found, Prediction)
    return found.objective


def test_the_best_point_of_the_step_box_is_named_with_its_gain() -> None:
    asked = request(reports=[chat_report(n) for n in "ab"])
    found = propose_by_reuse(asked)
    assert isinstance(found, Candidate)
    assert found.strategy is Strategy.REUSE_MODEL
    assert found.config == made(120, 0.3, 228)
    assert found.why.startswith("cacheTTL 30s -> 120s, tiers.hostMemory 57Gi -> 228Gi: from ")
    then = _objective(found.config)
    assert found.predicted_objective == pytest.approx(then, abs=1e-12)
    assert found.predicted_gain == pytest.approx(then - _objective(asked.incumbent), abs=1e-12)


def _walk(noise: float) -> tuple[CacheConfig, int, str]:
    """Promote every proposal until there is none."""
    incumbent, promoted = made(), 0
    while True:
        asked = request(incumbent=incumbent, reports=[chat_report(runs=incumbent)], noise=noise)
        found = propose_by_reuse(asked)
        if not isinstance(found, Candidate):
            return incumbent, promoted, found.reason
        incumbent, promoted = found.config, promoted + 1


def test_promotions_lead_to_where_no_gain_is_left() -> None:
    incumbent, promoted, said = _walk(noise=0.018)
    assert promoted == 3
    assert "at least 0.0050 is worth an experiment" in said
    best = max(
        _objective(made(ttl, ratio, host))
        for ttl in np.geomspace(30, 600, 25)
        for ratio in (0.05, 0.1, 0.2, 0.3)
        for host in np.geomspace(14, 912, 25)
    )
    assert _objective(incumbent) > 0.98 * best


def test_a_gain_below_a_fifth_of_the_noise_is_not_worth_an_experiment() -> None:
    incumbent, promoted, said = _walk(noise=3.0)
    assert (incumbent, promoted) == (made(), 0)
    assert "at least 0.6000 is worth" in said


def test_after_a_loss_the_step_is_a_factor_of_two() -> None:
    asked = request(reports=[chat_report()], trials=[trial(1, made(120, 0.3, 228))])
    found = propose_by_reuse(asked)
    assert isinstance(found, Candidate)
    assert step_box(asked.space, asked.incumbent, 2.0).holds(found.config)
    assert found.config == made(60, 0.3, 114)


def test_after_two_losses_at_the_small_step_the_model_is_silent_until_one_is_a_day_old() -> None:
    lost = [
        trial(n, made(60 + 9 * n), ended_at=NOW - timedelta(hours=10 - n), incumbent=made(40 + n))
        for n in (1, 2, 3)
    ]
    wide = propose_by_reuse(request(reports=[chat_report()], trials=lost[1:]))
    assert isinstance(wide, Candidate)
    silent = propose_by_reuse(request(reports=[chat_report()], trials=lost))
    assert isinstance(silent, NothingToTry)
    assert silent.reason == "the reuse model lost 3 times in a row"
    assert silent.retry_at == NOW + timedelta(hours=15)
    narrow = propose_by_reuse(request(policy(knobs_of(step=2)), reports=[chat_report()], trials=lost[1:]))
    assert isinstance(narrow, NothingToTry)


def test_what_is_denied_is_passed_over_for_the_next_best() -> None:
    first = propose_by_reuse(request(reports=[chat_report()]))
    assert isinstance(first, Candidate)
    ladder_lost = trial(1, first.config, strategy=Strategy.LADDER)
    second = propose_by_reuse(request(reports=[chat_report()], trials=[ladder_lost]))
    assert isinstance(second, Candidate)
    assert (second.predicted_gain or 0) < (first.predicted_gain or 0)


def test_a_loser_is_not_tried_again_with_a_knob_moved_that_has_no_effect() -> None:
    """At 30 s the TTL ends before the tier is full: the ratio moves neither hits nor passes."""
    roomy = made(60, 0.3, 228)
    assert _objective(roomy) == pytest.approx(_objective(made(60, 0.1, 228)), abs=1e-9)
    only = policy(knobs_of(only=[Knob.CACHE_TTL, Knob.EVICTION_RATIO]))
    start = made(30, 0.3, 228)
    asked = request(only, incumbent=start, reports=[chat_report(runs=start)])
    first = propose_by_reuse(asked)
    assert isinstance(first, Candidate)
    again = propose_by_reuse(replace(asked, trials=(trial(1, first.config, incumbent=start),)))
    assert isinstance(again, Candidate)
    assert distance(again.config, first.config)[Knob.CACHE_TTL] > math.log(1.05)


def test_a_knob_that_changes_nothing_is_not_moved() -> None:
    """Where the TTL ends first, the ratio has no effect."""
    found = propose_by_reuse(request(incumbent=made(30, 0.1, 300), reports=[chat_report()]))
    assert isinstance(found, Candidate)
    assert found.config.eviction_ratio == 0.1
