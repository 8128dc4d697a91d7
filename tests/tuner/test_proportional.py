"""The article's rule as it is printed, clamped to what the policy allows."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_api.knobs import CacheConfig, Knob, point
from kvtune_api.policy import HitRateTarget, PolicySpec, Strategy, Targets, TTFTTarget
from kvtune_api.status import Trial
from kvtune_api.units import Duration
from kvtune_tuner.proportional import Rule, proportional_controller, propose_by_rule
from kvtune_tuner.proposal import Candidate, NothingToTry, Service
from kvtune_tuner.space import space_of
from tests.tuner.proposal_cases import made, policies, policy, request, trial

ARTICLE = Targets(ttft=TTFTTarget(quantile=0.95, limit=Duration("320ms")), hit_rate=HitRateTarget(min=0.78))
SPACE = space_of(policy(), frozenset(Knob))


def _asked(
    incumbent: CacheConfig, service: Service | None, trials: tuple[Trial, ...] = ()
) -> Candidate | NothingToTry:
    spec = replace(policy(), targets=ARTICLE)
    return propose_by_rule(replace(request(spec, incumbent=incumbent, trials=trials), service=service))


@pytest.mark.parametrize(
    ("hit_rate", "ttft_s", "ttl_s", "ratio"),
    [
        (0.78, 0.320, 60, 0.1),
        (0.721, 0.356, 65, 0.111),
        (0.39, 0.160, 120, 0.05),
        (0.0, 100.0, 600, 0.3),
        (1.0, 0.0, 47, 0.05),
        (None, 0.640, 90, 0.2),
        (0.39, None, 120, 0.07),
        (None, None, 90, 0.07),
    ],
)
def test_the_controller_scales_the_ttl_with_hits_and_the_ratio_with_time(
    hit_rate: float | None, ttft_s: float | None, ttl_s: float, ratio: float
) -> None:
    service = Service(hit_rate=hit_rate, ttft_seconds=ttft_s)
    found = proportional_controller(Rule(), SPACE, ARTICLE, service, made(90, 0.07, 100))
    assert found == made(ttl_s, ratio, 100)


def test_the_proposer_takes_at_most_one_step_and_never_moves_the_tier() -> None:
    found = _asked(made(400, 0.3, 57), Service(hit_rate=0.78, ttft_seconds=0.032))
    assert isinstance(found, Candidate)
    assert (found.strategy, found.config) == (Strategy.PROPORTIONAL, made(100, 0.075, 57))
    assert found.why == (
        "cacheTTL 400s -> 100s, evictionRatio 0.3 -> 0.075: "
        "proportional rule at hit rate 0.780 and time to first token 0.032s"
    )


def test_nothing_measured_nothing_asked_and_a_denied_answer_are_said() -> None:
    at_target = Service(hit_rate=0.78, ttft_seconds=0.32)
    lost = (trial(1, made(60, 0.1, 57), incumbent=made(90, 0.1, 57)),)
    answers = [
        _asked(made(60, 0.1, 57), None),
        _asked(made(60, 0.1, 57), at_target),
        _asked(made(90, 0.1, 57), at_target, lost),
    ]
    said = [found.reason for found in answers if isinstance(found, NothingToTry)]
    seen = "proportional rule: hit rate 0.780 and time to first token 0.32s asks for"
    assert said == [
        "proportional rule: neither hit rate nor time to first token was measured",
        f"{seen} the incumbent",
        f"{seen} what lost in experiment 1 (Rejected, HarmObjective)",
    ]


def test_without_a_target_for_hits_the_articles_is_used() -> None:
    only_ttft = Targets(ttft=ARTICLE.ttft)
    service = Service(hit_rate=0.39)
    assert proportional_controller(Rule(), SPACE, only_ttft, service, made(90)) == made(120)


@given(policies(), st.none() | st.floats(0, 1), st.none() | st.floats(0, 1e6))
def test_the_controller_never_leaves_the_bounds(
    drawn: tuple[PolicySpec, CacheConfig], hit_rate: float | None, ttft_s: float | None
) -> None:
    spec, incumbent = drawn
    space = space_of(spec, frozenset(Knob))
    service = Service(hit_rate=hit_rate, ttft_seconds=ttft_s)
    found = proportional_controller(Rule(), space, spec.targets, service, incumbent)
    assert space.inside(point(found))
