"""Scale the TTL with the hit rate and the eviction ratio with the time to first token: the article's rule.

The baseline that every other strategy must beat (systems.md 2; article section S 4.4: TTL 60 s, ratio 0.1):

    ttl' = clamp(ttl_base x target hit rate / hit rate)
    ratio' = clamp(ratio_base x p95 / target p95)

As a proposer it only names a candidate and the experiment decides. As a controller, which changes every agent
untested, it exists for the bench alone. Pure.
"""

from dataclasses import dataclass

from kvtune_api import knobs
from kvtune_api.knobs import CacheConfig, Knob
from kvtune_api.policy import Strategy, Targets
from kvtune_tuner.box import step_box
from kvtune_tuner.configs import same_config, steps_written, with_values
from kvtune_tuner.denylist import denied
from kvtune_tuner.proposal import Candidate, NothingToTry, Request, Service
from kvtune_tuner.space import Axis, Space

ARTICLE_HIT_RATE = 0.78
"""The article's target, where the policy has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What the rule scales; the defaults are the article's constants."""

    ttl_seconds: float = 60.0
    ratio: float = 0.1


def propose_by_rule(request: Request) -> Candidate | NothingToTry:
    """Name the configuration that the rule wants, clamped to the bounds and to one step."""
    problem = request.space.problem(request.incumbent)
    if problem is not None:
        return NothingToTry(reason=problem)
    service = request.service or Service()
    wanted = _wanted(Rule(), request.spec.targets, service)
    if not wanted:
        return NothingToTry(reason="proportional rule: neither hit rate nor time to first token was measured")
    config = step_box(request.space, request.incumbent).config(wanted)
    if same_config(config, request.incumbent):
        return NothingToTry(reason=f"proportional rule: {_seen(service)} asks for the incumbent")
    because = denied(request.trials, request.incumbent).reason(config)
    if because is not None:
        return NothingToTry(reason=f"proportional rule: {_seen(service)} asks for what {because}")
    return Candidate(
        config=config,
        strategy=Strategy.PROPORTIONAL,
        why=f"{steps_written(request.incumbent, config)}: proportional rule at {_seen(service)}",
    )


def proportional_controller(
    rule: Rule, space: Space, targets: Targets, service: Service, current: CacheConfig
) -> CacheConfig:
    """Give the configuration that the untested controller runs next: within the bounds, of any step."""
    wanted = _wanted(rule, targets, service)
    values = {axis.knob: _within(axis, wanted[axis.knob]) for axis in space.axes if axis.knob in wanted}
    return with_values(current, {knob: value for knob, value in values.items() if value is not None})


def _wanted(rule: Rule, targets: Targets, service: Service) -> dict[Knob, float]:
    """Give what the rule says for each knob whose measurement there is, before any clamp."""
    wanted: dict[Knob, float] = {}
    target = targets.hit_rate.min if targets.hit_rate is not None else ARTICLE_HIT_RATE
    if service.hit_rate is not None and service.hit_rate >= 0:
        wanted[Knob.CACHE_TTL] = rule.ttl_seconds * target / max(service.hit_rate, 1e-6)
    if targets.ttft is not None and service.ttft_seconds is not None and service.ttft_seconds >= 0:
        scale = service.ttft_seconds / targets.ttft.limit.seconds
        wanted[Knob.EVICTION_RATIO] = max(1e-6, rule.ratio * scale)
    return wanted


def _within(axis: Axis, value: float) -> float | None:
    """Clamp to the bounds; None where rounding to the written grid leaves them."""
    inside = knobs.rounded({axis.knob: min(max(value, axis.low), axis.high)})[axis.knob]
    return inside if axis.low <= inside <= axis.high else None


def _seen(service: Service) -> str:
    parts = []
    if service.hit_rate is not None:
        parts.append(f"hit rate {service.hit_rate:.3f}")
    if service.ttft_seconds is not None:
        parts.append(f"time to first token {service.ttft_seconds:.3g}s")
    return " and ".join(parts)
