"""Design an experiment before it starts: its pairs, lengths, guardrails and power. Pure.

Used by `begin` before any exposure and by `epochs` again once a run-in has measured the noise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kvtune_api.experiment import GuardrailPlan
from kvtune_api.experiment_settings import ExperimentSettings, Margins
from kvtune_api.knobs import CacheConfig, Knob, point
from kvtune_api.status import Noise, Pair
from kvtune_api.wire import Report
from kvtune_tuner.assign import AgentLoad, Pairing, choose_pairs, match_pairs
from kvtune_tuner.configs import RECENCY, evicts_by
from kvtune_tuner.draft import Draft
from kvtune_tuner.leavers import staying
from kvtune_tuner.observe import recent_windows
from kvtune_tuner.permits import most_exposed
from kvtune_tuner.power import PowerDesign, pairs_for_power, power
from kvtune_tuner.proposal import Candidate
from kvtune_tuner.schedule import ArmFill, Bounds, Timing, measuring_window_s, washout_s
from kvtune_tuner.scoring import HIT_RATE, STALL, TTFT
from kvtune_tuner.sli import Missing, MissingReason

NOISE_AGE_SECONDS = 24 * 3600.0
LEAST_POWER = 0.5
MARGIN_LOW, MARGIN_HIGH = 0.02, 0.05
"""Bounds of a guardrail's margin (experiments.md 8): one sd of its noise, between 2 and 5 points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Lengths and chances of an experiment that might start."""

    washout: float
    window: float
    timing: Timing
    power: float | None
    guardrail_power: float | None
    pairs_needed: int | None


def pairing(draft: Draft) -> tuple[tuple[Pair, ...], bool]:
    """The pairs of the next experiment, and whether the noise known is that of these pairs."""
    names = staying(draft)
    at_once = min(draft.seen.policy.spec.experiment.pairs_at_once, most_exposed(draft))
    wanted = min(at_once, len(names) // 2)
    noise = draft.status.noise
    if noise is not None and len(noise.pairs) == wanted:
        present = set(names)
        if all({pair.first, pair.second} <= present for pair in noise.pairs):
            age = (draft.seen.now - noise.measured_at).total_seconds()
            return noise.pairs, age <= NOISE_AGE_SECONDS
    matched = match_pairs(_loads(draft, names))
    assert isinstance(matched, Pairing), "two agents answer and stay: checked before"
    chosen = choose_pairs(matched.pairs, at_once)
    return tuple(Pair(first=pair.first, second=pair.second) for pair in chosen), False


def _loads(draft: Draft, names: tuple[str, ...]) -> list[AgentLoad]:
    missing = Missing(reason=MissingReason.NO_TRAFFIC, message="no recent requests")
    return [
        AgentLoad(
            name=name,
            request_rate=report.load.request_rate or 0.0,
            hit_rate=missing if report.load.hit_rate is None else report.load.hit_rate,
        )
        for name, report in ((name, draft.by_name[name]) for name in names)
    ]


def designed(draft: Draft, candidate: Candidate, pairs: int, noise: Noise | None, *, run_in: bool) -> Design:
    """Lengths of washout and window, power and duration, as far as they are known now."""
    spec = draft.seen.policy.spec.experiment
    incumbent = draft.status.incumbent
    assert incumbent is not None, "checked before"
    rate, insert = _rates(draft)
    fills = [_fill(config, draft.reports, insert) for config in (incumbent, candidate.config)]
    washout = washout_s(fills, Bounds(min_s=spec.washout.min.seconds, max_s=spec.washout.max.seconds))
    window = measuring_window_s(
        rate * pairs,
        Bounds(min_s=spec.window.min.seconds, max_s=spec.window.max.seconds),
        min_requests=spec.min_requests,
        effect_over_sd=noise.effect_over_sd if noise else None,
    )
    max_pairs = most_pairs(candidate, spec)
    timing = Timing(
        washout_s=washout,
        window_s=window,
        pairs=max_pairs,
        pairs_per_block=pairs,
        run_in_blocks=2 if run_in else 0,
        watch_windows=spec.watch_windows,
    )
    if noise is None or run_in:
        return Design(washout=washout, window=window, timing=timing, power=None, guardrail_power=None,
                      pairs_needed=None)  # fmt: skip
    chances = powered(draft, candidate.predicted_gain, max_pairs, pairs, noise)
    return replace(chances, washout=washout, window=window, timing=timing)


def most_pairs(candidate: Candidate, settings: ExperimentSettings) -> int:
    """After how many Deltas an experiment gives up: never before it might promote."""
    return max(candidate.max_pairs or settings.max_pairs, settings.min_pairs)


def powered(draft: Draft, gain: float | None, max_pairs: int, pairs: int, noise: Noise) -> Design:
    """The chances of an experiment whose noise is known (its lengths are not filled in)."""
    spec = draft.seen.policy.spec.experiment
    promising = gain is not None and gain > spec.min_effect
    effect = gain if promising and gain is not None else max(spec.detectable_effect, spec.min_effect)
    design = PowerDesign(
        pairs=math.ceil(max_pairs / pairs) * pairs,  # decisions come after whole blocks
        pairs_per_block=pairs,
        alpha=spec.alpha,
        min_pairs=min(spec.min_pairs, max_pairs),
        dmin=spec.min_effect,
    )
    plans = guardrail_plans(draft, noise.guardrails)
    guarded = replace(design, guardrails=tuple((plan.margin, plan.sd) for plan in plans))
    found = power(effect, noise.objective, design)
    needed = pairs_for_power(effect, noise.objective, design) if found < LEAST_POWER else max_pairs
    empty = Timing(washout_s=0, window_s=0, pairs=max_pairs, pairs_per_block=pairs)
    return Design(
        washout=0.0,
        window=0.0,
        timing=empty,
        power=found,
        guardrail_power=power(effect, noise.objective, guarded) if plans else None,
        pairs_needed=needed,
    )


def guardrail_plans(draft: Draft, noise: Mapping[str, float]) -> tuple[GuardrailPlan, ...]:
    """The guardrails of an experiment: one for each target, with its margin (experiments.md 8)."""
    targets = draft.seen.policy.spec.targets
    margins: Margins = draft.seen.policy.spec.experiment.margins
    asked = {
        TTFT: margins.ttft if targets.ttft else -1.0,
        HIT_RATE: margins.hit_rate if targets.hit_rate else -1.0,
        STALL: margins.stall if targets.stall else -1.0,
    }
    plans = []
    for name, margin in asked.items():
        if margin == -1.0:
            continue
        sd = max(noise.get(name, MARGIN_LOW), 0.001)
        automatic = min(max(MARGIN_LOW, sd), MARGIN_HIGH)
        plans.append(
            GuardrailPlan(name=name, margin=automatic if margin is None else max(margin, 1e-6), sd=sd)
        )
    return tuple(plans)


def _rates(draft: Draft) -> tuple[float, float | None]:
    """Requests per second and inserted bytes per second of an average agent."""
    windows = [w for w in recent_windows(draft).values() if not isinstance(w, Missing) and w.seconds > 0]
    rates = [(w.requests or 0.0) / w.seconds for w in windows]
    inserts = [w.bytes_down / w.seconds for w in windows if w.bytes_down is not None]
    return (
        math.fsum(rates) / len(rates) if rates else 0.0,
        math.fsum(inserts) / len(inserts) if inserts else None,
    )


def _fill(config: CacheConfig, reports: Sequence[Report], insert: float | None) -> ArmFill:
    values = point(config)
    return ArmFill(
        ttl_s=values.get(Knob.CACHE_TTL, math.inf),
        capacity_bytes=values.get(Knob.HOST_MEMORY, math.inf),
        insert_bytes_per_s=insert,
        recency=evicts_by(config, reports) in RECENCY,
    )


def underpowered(design: Design) -> str | None:
    """Why an experiment is refused for its power; None when it has enough (experiments.md 9)."""
    if design.power is None or design.power >= LEAST_POWER:
        return None
    needed = (
        f"maxPairs {design.pairs_needed} would do"
        if design.pairs_needed
        else "no maxPairs up to 240 would do"
    )
    return f"power {design.power:.2f} with maxPairs {design.timing.pairs} is below {LEAST_POWER}; {needed}"
