"""The ladder goes up while that wins, then tries each knob alone, and knows from history where it stands."""

from collections.abc import Callable

import pytest

from kvtune_api.experiment_settings import ExperimentSettings
from kvtune_api.knobs import CacheConfig, Knob
from kvtune_api.policy import PolicySpec, Prices, Strategy
from kvtune_api.status import Trial
from kvtune_tuner.ladder import propose_by_ladder
from kvtune_tuner.proposal import Candidate, NothingToTry
from tests.tuner.proposal_cases import knobs_of, made, policy, request, trial

Wins = Callable[[CacheConfig, CacheConfig], bool]


def _next(
    spec: PolicySpec, incumbent: CacheConfig, trials: list[Trial] | None = None
) -> Candidate | NothingToTry:
    return propose_by_ladder(request(spec, incumbent=incumbent, trials=trials or []))


def _climb(spec: PolicySpec, incumbent: CacheConfig, wins: Wins) -> tuple[CacheConfig, list[Trial], str]:
    """Run experiments to the end: each candidate wins or loses by a rule."""
    trials: list[Trial] = []
    while True:
        found = _next(spec, incumbent, trials)
        if isinstance(found, NothingToTry):
            return incumbent, trials, found.reason
        won = wins(incumbent, found.config)
        trials.append(
            trial(
                len(trials) + 1,
                found.config,
                "promoted" if won else "undecided",
                incumbent=incumbent,
                strategy=found.strategy,
            )
        )
        incumbent = found.config if won else incumbent
        assert len(trials) < 100


def _gib(config: CacheConfig) -> float:
    assert config.tiers.host_memory is not None
    return config.tiers.host_memory.gib


def test_the_first_rung_moves_all_knobs_one_step_toward_more_reuse() -> None:
    found = _next(policy(), made(30, 0.3, 57))
    assert isinstance(found, Candidate)
    assert (found.strategy, found.config, found.max_pairs) == (
        Strategy.LADDER,
        made(120, 0.075, 228),
        None,
    )
    assert found.why.endswith("tiers.hostMemory 57Gi -> 228Gi: all knobs one step toward more reuse")


def test_the_rung_is_repeated_while_it_is_promoted_and_stops_at_the_bounds() -> None:
    trials = [trial(1, made(120, 0.075, 228), "promoted", strategy=Strategy.LADDER)]
    found = _next(policy(), made(120, 0.075, 228), trials)
    assert isinstance(found, Candidate)
    assert found.config == made(480, 0.05, 912)


def test_when_all_together_lost_the_priced_tier_goes_down_first_with_fewer_pairs() -> None:
    trials = [trial(1, made(120, 0.075, 228), strategy=Strategy.LADDER)]
    found = _next(policy(), made(30, 0.3, 57), trials)
    assert isinstance(found, Candidate)
    assert (found.config, found.max_pairs) == (made(30, 0.3, 14.25), 12)
    assert found.why == "tiers.hostMemory 57Gi -> 14592Mi: one knob alone"


def test_a_loss_of_another_proposer_at_the_same_point_counts_too() -> None:
    trials = [trial(1, made(120, 0.075, 228), strategy=Strategy.REUSE_MODEL)]
    found = _next(policy(), made(30, 0.3, 57), trials)
    assert isinstance(found, Candidate)
    assert found.config == made(30, 0.3, 14.25)


def test_when_nothing_wins_every_knob_was_tried_both_ways_once() -> None:
    start = made(120, 0.12, 114)
    end, trials, said = _climb(policy(), start, lambda was, new: False)
    assert end == start
    assert [one.candidate for one in trials] == [
        made(480, 0.05, 456),
        made(120, 0.12, 28.5),
        made(120, 0.12, 456),
        made(120, 0.3, 114),
        made(120, 0.05, 114),
        made(480, 0.12, 114),
        made(30, 0.12, 114),
    ]
    assert said == "ladder: no step is left, of all knobs or of one (7 configurations are denied)"


def test_without_prices_more_reuse_of_each_knob_comes_first() -> None:
    start = made(120, 0.12, 114)
    _, trials, _ = _climb(policy(prices=Prices()), start, lambda was, new: False)
    assert [one.candidate for one in trials][1:] == [
        made(120, 0.12, 456),
        made(120, 0.12, 28.5),
        made(120, 0.05, 114),
        made(120, 0.3, 114),
        made(480, 0.12, 114),
        made(30, 0.12, 114),
    ]


def test_a_single_step_that_won_is_repeated_before_any_other_and_never_undone() -> None:
    start = made(120, 0.12, 912)

    def smaller_wins(was: CacheConfig, new: CacheConfig) -> bool:
        return _gib(new) < _gib(was)

    end, trials, _ = _climb(policy(), start, smaller_wins)
    assert _gib(end) == 14.25 or _gib(end) == 14
    tried = [one.candidate for one in trials]
    assert tried[1:4] == [made(120, 0.12, 228), made(120, 0.12, 57), made(120, 0.12, 14.25)]
    assert start not in tried


def test_all_together_is_not_tried_again_after_it_lost_under_an_earlier_incumbent() -> None:
    trials = [
        trial(1, made(480, 0.05, 456), incumbent=made(120, 0.12, 114), strategy=Strategy.LADDER),
        trial(2, made(120, 0.12, 28.5), "promoted", incumbent=made(120, 0.12, 114), strategy=Strategy.LADDER),
    ]
    found = _next(policy(), made(120, 0.12, 28.5), trials)
    assert isinstance(found, Candidate)
    assert found.config == made(120, 0.12, 14)


def test_a_shifted_workload_starts_the_ladder_anew() -> None:
    trials = [trial(1, made(120, 0.075, 228), strategy=Strategy.LADDER, shifted=True)]
    found = _next(policy(), made(30, 0.3, 57), trials)
    assert isinstance(found, Candidate)
    assert found.config == made(120, 0.075, 228)


@pytest.mark.parametrize("ending", ["no data", "aborted", "sample ratio"])
def test_a_rung_without_a_verdict_is_tried_again(ending: str) -> None:
    trials = [trial(1, made(120, 0.075, 228), ending, strategy=Strategy.LADDER)]
    found = _next(policy(), made(30, 0.3, 57), trials)
    assert isinstance(found, Candidate)
    assert found.config == made(120, 0.075, 228)


def test_from_the_corner_of_most_reuse_only_single_steps_back_are_left() -> None:
    corner = made(600, 0.05, 912)
    _, trials, _ = _climb(policy(), corner, lambda was, new: False)
    assert [one.candidate for one in trials] == [
        made(600, 0.05, 228),
        made(600, 0.2, 912),
        made(150, 0.05, 912),
    ]


def test_one_knob_goes_up_then_down_with_the_policys_pairs() -> None:
    spec = policy(knobs_of(only=[Knob.CACHE_TTL]))
    start = made(120, None, None)
    _, trials, _ = _climb(spec, start, lambda was, new: False)
    assert [one.candidate for one in trials] == [made(480, None, None), made(30, None, None)]
    found = _next(spec, start)
    assert isinstance(found, Candidate)
    assert found.max_pairs is None


@pytest.mark.parametrize(("fewest", "most", "limit"), [(5, 24, 12), (5, 8, 8), (16, 24, 16)])
def test_the_pairs_of_a_single_step_stay_within_those_of_the_policy(
    fewest: int, most: int, limit: int
) -> None:
    settings = ExperimentSettings(min_pairs=fewest, max_pairs=most)
    spec = policy()
    spec = PolicySpec(targets=spec.targets, objective=spec.objective, knobs=spec.knobs, experiment=settings)
    found = _next(spec, made(30, 0.3, 57), [trial(1, made(120, 0.075, 228), strategy=Strategy.LADDER)])
    assert isinstance(found, Candidate)
    assert found.max_pairs == limit


def test_climbs_to_the_best_point_that_lies_on_its_rungs() -> None:
    def nearer(was: CacheConfig, new: CacheConfig) -> bool:
        return abs(_gib(new) - 228) < abs(_gib(was) - 228)

    end, trials, _ = _climb(policy(), made(30, 0.3, 57), nearer)
    assert _gib(end) == 228
    assert len(trials) < 12
