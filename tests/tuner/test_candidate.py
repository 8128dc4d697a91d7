"""Auto asks the reuse model, then the ladder, then Optuna; whoever answers stays within the policy."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtune_api.knobs import CacheConfig, Knob, point
from kvtune_api.policy import PolicySpec, Prices, Strategy
from kvtune_api.policy_knobs import Knobs
from kvtune_api.ranges import DurationRange
from kvtune_api.status import Trial
from kvtune_api.units import Duration
from kvtune_api.wire import ReuseAges
from kvtune_tuner.box import step_box
from kvtune_tuner.candidate import CLEARLY_WORSE, OPTUNA_LOSSES, next_candidate
from kvtune_tuner.configs import same_config
from kvtune_tuner.denylist import denied
from kvtune_tuner.proposal import Candidate, NothingToTry, Request, Service
from tests.tuner.proposal_cases import (
    NOW,
    chat_report,
    histories,
    made,
    policy,
    report,
    request,
    reuse_ages,
    trial,
    with_strategy,
)

CORNER = made(600, 0.05, 912)
"""Where no rung goes up; three single ones go back."""


def _found(asked: Request) -> Candidate:
    found = next_candidate(asked)
    assert isinstance(found, Candidate), found
    return found


def _refused(asked: Request) -> NothingToTry:
    found = next_candidate(asked)
    assert isinstance(found, NothingToTry), found
    return found


def _ladder_done() -> list[Trial]:
    backs = (made(600, 0.05, 228), made(600, 0.2, 912), made(150, 0.05, 912))
    return [
        trial(n, one, "undecided", incumbent=CORNER, strategy=Strategy.LADDER)
        for n, one in enumerate(backs, start=1)
    ]


def _optuna_lost(count: int, hours_ago: float = 1.0) -> list[Trial]:
    return [
        trial(
            10 + n,
            made(200 + 20 * n, 0.1, 700),
            incumbent=CORNER,
            strategy=Strategy.OPTUNA,
            ended_at=NOW - timedelta(hours=hours_ago),
        )
        for n in range(count)
    ]


def test_auto_begins_with_the_reuse_model_where_agents_report_ages() -> None:
    assert _found(request(reports=[chat_report()])).strategy is Strategy.REUSE_MODEL


def test_auto_takes_the_ladder_where_no_agent_reports_ages() -> None:
    assert _found(request(reports=[report()])).strategy is Strategy.LADDER


def test_auto_takes_the_ladder_when_the_predicted_gain_is_too_small() -> None:
    assert _found(request(reports=[chat_report()], noise=3.0)).strategy is Strategy.LADDER


def test_auto_takes_the_ladder_after_the_reuse_model_lost_with_small_steps_too() -> None:
    lost = [
        trial(1, made(120, 0.3, 228)),
        trial(2, made(60, 0.3, 114)),
        trial(3, made(60, 0.15, 80)),
    ]
    by = [_found(request(reports=[chat_report()], trials=lost[:n])).strategy for n in range(4)]
    assert by == [Strategy.REUSE_MODEL] * 3 + [Strategy.LADDER]


def test_auto_takes_optuna_when_the_ladder_is_done() -> None:
    assert _found(request(incumbent=CORNER, trials=_ladder_done())).strategy is Strategy.OPTUNA


def test_auto_rests_after_optuna_lost_eight_times_and_says_until_when() -> None:
    lost = _optuna_lost(OPTUNA_LOSSES)
    asked = request(incumbent=CORNER, trials=[*_ladder_done(), *lost])
    refused = _refused(asked)
    assert refused.retry_at == NOW + timedelta(hours=23)
    assert refused.reason == (
        "none of 0 agents reports reuse ages and block sizes; "
        "ladder: no step is left, of all knobs or of one (11 configurations are denied); "
        "Optuna rests after 8 losses in a row, until 2026-03-02 11:00:00 or until the workload shifts"
    )
    assert _found(replace(asked, trials=tuple(asked.trials[:-1]))).strategy is Strategy.OPTUNA
    assert _found(replace(asked, now=NOW + timedelta(hours=23))).strategy is Strategy.OPTUNA


def test_a_shifted_workload_starts_over() -> None:
    trials = [*_ladder_done(), *_optuna_lost(OPTUNA_LOSSES)]
    moved = [replace(one, shifted=True) for one in trials]
    assert _found(request(incumbent=CORNER, trials=moved)).strategy is Strategy.LADDER


def test_optuna_alone_does_not_rest() -> None:
    asked = request(incumbent=CORNER, trials=[*_ladder_done(), *_optuna_lost(OPTUNA_LOSSES)])
    assert _found(with_strategy(asked, Strategy.OPTUNA)).strategy is Strategy.OPTUNA


@pytest.mark.parametrize("strategy", [one for one in Strategy if one is not Strategy.AUTO])
def test_each_strategy_can_be_had_alone(strategy: Strategy) -> None:
    asked = replace(request(reports=[chat_report()]), service=Service(hit_rate=0.4, ttft_seconds=0.1))
    found = _found(with_strategy(asked, strategy))
    assert found.strategy is strategy
    assert len(found.why) <= 512


def test_the_reuse_model_alone_says_what_it_lacks() -> None:
    refused = _refused(with_strategy(request(reports=[report()]), Strategy.REUSE_MODEL))
    assert refused.reason == "none of 1 agents reports reuse ages and block sizes"


@pytest.mark.parametrize("strategy", Strategy)
def test_an_incumbent_outside_the_bounds_is_said_by_every_strategy(strategy: Strategy) -> None:
    refused = _refused(with_strategy(request(incumbent=made(700), reports=[chat_report()]), strategy))
    assert refused.reason == "cacheTTL: the incumbent's 700s is outside 30s to 600s"


@pytest.mark.parametrize("strategy", Strategy)
def test_knobs_without_room_leave_nothing_to_try(strategy: Strategy) -> None:
    fixed = Knobs(cache_ttl=DurationRange(min=Duration("60s"), max=Duration("60s")))
    asked = request(policy(fixed), incumbent=made(60, None, None), reports=[chat_report()])
    _refused(with_strategy(replace(asked, service=Service(hit_rate=0.1)), strategy))


def test_without_prices_the_reuse_model_wants_more_of_everything() -> None:
    found = _found(request(policy(prices=Prices()), reports=[chat_report()]))
    assert found.strategy is Strategy.REUSE_MODEL
    now, then = point(made()), point(found.config)
    assert then[Knob.CACHE_TTL] > now[Knob.CACHE_TTL]
    assert then[Knob.HOST_MEMORY] > now[Knob.HOST_MEMORY]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    histories(),
    st.lists(reuse_ages(), max_size=2),
    st.none() | st.floats(1e-4, 1),
    st.integers(0, 2**63),
    st.builds(Service, hit_rate=st.none() | st.floats(0, 1), ttft_seconds=st.none() | st.floats(0, 1e5)),
)
def test_every_candidate_is_inside_bounds_and_step_new_and_not_denied(
    drawn: tuple[PolicySpec, CacheConfig, list[Trial]],
    ages: list[ReuseAges],
    noise: float | None,
    seed: int,
    service: Service,
) -> None:
    spec, incumbent, trials = drawn
    reports = [report(f"a{i}", runs=incumbent, reuse=one) for i, one in enumerate(ages)]
    asked = request(spec, incumbent=incumbent, reports=reports, trials=trials, noise=noise, seed=seed)
    asked = replace(asked, service=service)
    found = next_candidate(asked)
    assert found == next_candidate(asked)
    if isinstance(found, NothingToTry):
        assert found.reason
        return
    assert asked.space.inside(point(found.config))
    assert step_box(asked.space, incumbent).holds(found.config)
    assert not same_config(found.config, incumbent)
    assert denied(trials, incumbent).reason(found.config) is None
    assert len(found.why) <= 512
    if found.predicted_gain is not None and found.strategy is Strategy.REUSE_MODEL:
        assert found.predicted_gain >= max(0.005, 0.2 * (noise or 0)) - 1e-9
    if found.predicted_gain is not None and spec.strategy is Strategy.AUTO:
        assert found.predicted_gain >= CLEARLY_WORSE, "Auto exposes nobody to a clear loser"


@pytest.mark.parametrize("strategy", [Strategy.LADDER, Strategy.OPTUNA])
def test_the_prediction_stands_beside_every_candidate_whoever_names_it(strategy: Strategy) -> None:
    found = _found(with_strategy(request(reports=[chat_report()]), strategy))
    assert found.strategy is strategy
    assert found.predicted_gain is not None and found.predicted_objective is not None


def test_auto_passes_over_what_is_predicted_to_lose_clearly_and_the_ladder_alone_does_not() -> None:
    best = _found(request(reports=[chat_report()]))
    for _ in range(6):
        nearer = next_candidate(request(incumbent=best.config, reports=[chat_report()]))
        if not isinstance(nearer, Candidate) or nearer.strategy is not Strategy.REUSE_MODEL:
            break
        best = nearer
    asked = request(incumbent=best.config, reports=[chat_report()])
    alone = _found(with_strategy(asked, Strategy.LADDER))
    assert alone.predicted_gain is not None and alone.predicted_gain < CLEARLY_WORSE
    auto = next_candidate(asked)
    assert not isinstance(auto, Candidate) or (auto.predicted_gain or 0.0) >= CLEARLY_WORSE
    if isinstance(auto, NothingToTry):
        assert "the ladder's next step is predicted to change Y by" in auto.reason
