"""Lengths, margins and chances of an experiment before it starts."""

from dataclasses import replace

import pytest

from kvtune_api.experiment_settings import Margins
from kvtune_api.names import Phase
from kvtune_api.policy import HitRateTarget, Strategy, Targets, TTFTTarget
from kvtune_api.ranges import Bounds
from kvtune_api.units import Duration
from kvtune_tuner.design import most_pairs
from kvtune_tuner.proposal import Candidate
from tests.fakes.responses import flat
from tests.fakes.sim import PoolSettings
from tests.tuner.loop import loop
from tests.tuner.specs import BETTER, QUICK, gaining, spec

WIDE = replace(
    QUICK,
    window=Bounds(min=Duration("60s"), max=Duration("10m")),
    washout=Bounds(min=Duration("20s"), max=Duration("30m")),
)


def test_the_washout_lasts_until_the_longer_of_both_arms_has_forgotten() -> None:
    run = loop(gaining(), spec=spec(settings=WIDE))
    run.step()
    assert run.experiment.status.washout == 240.0, "the candidate's TTL; nothing is known of its fill time"


def test_the_window_is_long_enough_for_min_requests() -> None:
    slow = PoolSettings(agents=6, seed=1, noise_sd=0.005, request_rate=0.5)
    run = loop(gaining(), spec=spec(settings=WIDE), settings=slow)
    run.step()
    window = run.experiment.status.window
    assert window * 0.5 * 3 >= 500 and window % 5 == 0 and window <= 600


def test_the_window_is_longer_once_the_last_effect_was_small() -> None:
    run = loop(flat(), spec=spec(settings=WIDE))
    run.until_ended(limit=1500)
    run.until(lambda: run.status.experiments_started == 2, limit=200)
    noise = run.status.noise
    assert noise is not None and noise.effect_over_sd is not None and noise.effect_over_sd < 1
    assert run.experiment.status.window == 300.0


@pytest.mark.parametrize(
    ("margins", "noise_sd", "low", "high"),
    [
        (Margins(), 0.001, 0.02, 0.02),
        (Margins(), 0.09, 0.05, 0.05),
        (Margins(ttft=0.07), 0.001, 0.07, 0.07),
    ],
)
def test_a_guardrails_margin_is_one_sd_of_its_noise_between_two_and_five_points(
    margins: Margins, noise_sd: float, low: float, high: float
) -> None:
    settings = PoolSettings(agents=6, seed=1, noise_sd=0.005, share_sd=noise_sd)
    run = loop(gaining(), spec=spec(settings=replace(QUICK, margins=margins)), settings=settings)
    run.until_phase(Phase.WASHOUT)
    (plan,) = run.experiment.status.guardrails
    assert low <= plan.margin <= high


def test_every_target_is_a_guardrail() -> None:
    targets = Targets(ttft=TTFTTarget(quantile=0.7, limit=Duration("250ms")), hit_rate=HitRateTarget(min=0.2))
    run = loop(gaining(), spec=replace(spec(), targets=targets))
    run.until_ended()
    assert [plan.name for plan in run.experiment.status.guardrails] == ["ttft", "hitRate"]
    assert set(run.experiment.status.evidence.guardrails) == {"ttft", "hitRate"}
    assert run.outcome() == "Promoted(Superior)"


def test_a_candidate_that_harms_a_guardrail_is_not_promoted_however_good_its_objective() -> None:
    run = loop(gaining(0.06, -0.09))
    run.until_ended()
    assert run.outcome() in ("Rejected(HarmGuardrail)", "RolledBack(Breaker)")


@pytest.mark.parametrize(
    ("asked", "least", "most", "found"), [(None, 8, 24, 24), (12, 8, 24, 12), (12, 20, 24, 20)]
)
def test_an_experiment_does_not_give_up_before_it_may_promote(
    asked: int | None, least: int, most: int, found: int
) -> None:
    candidate = Candidate(config=BETTER, strategy=Strategy.LADDER, why="", max_pairs=asked)
    assert most_pairs(candidate, replace(QUICK, min_pairs=least, max_pairs=most)) == found
