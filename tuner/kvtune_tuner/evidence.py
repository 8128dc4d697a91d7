"""Put an experiment's tests in short, for people: effect, interval, e-value, both arms' means. Pure."""

import math

from kvtune_api.evidence import Evidence, ExperimentShown
from kvtune_api.experiment import KVCacheExperiment
from kvtune_tuner.interval import Interval, asymptotic_interval, inverted_interval
from kvtune_tuner.ledger import ratio, read, test_deltas
from kvtune_tuner.scoring import HIT_RATE, TTFT, guardrail_value, score, stall_shares
from kvtune_tuner.sli import Missing


def evidence(experiment: KVCacheExperiment) -> Evidence:
    """The ledger in short, for people."""
    readings = read(experiment)
    if not readings:
        return experiment.status.evidence
    last, alpha = readings[-1], experiment.spec.policy_spec.experiment.alpha
    deltas = [d.objective for d in test_deltas(experiment) if d.objective is not None]
    superior, harm = last.tests.superior, last.tests.harm
    if experiment.status.checkpoint is None:
        interval: Interval | None = inverted_interval(deltas, s0=superior.s0, alpha=alpha) if deltas else None
    else:
        interval = asymptotic_interval(n=harm.n, mean=-harm.mean, sd=harm.sd or 0.0, alpha=alpha)
    gate = ratio(last)
    return Evidence(
        deltas=last.tests.n,
        effect=-harm.mean if harm.n else None,
        sd=superior.sd,
        interval=_bounds(interval),
        e_value=min(superior.e_value, 1e12),
        threshold=1.0 / alpha,
        p_value=superior.p_value,
        candidate=_arm_means(experiment, candidate=True),
        control=_arm_means(experiment, candidate=False),
        guardrails={g.name: g.noninferior.mean - g.margin for g in last.tests.guardrails if g.noninferior.n},
        sample_ratio="NotAvailable" if gate.p_value is None else f"{gate.p_value:.3g}",
    )


def shown(found: Evidence, max_pairs: int) -> ExperimentShown:
    """The evidence in the few characters of a column; effect and interval in points."""
    effect = "" if found.effect is None else f"{100 * found.effect:+.1f}"
    if effect and found.interval is not None:
        effect += f" [{100 * found.interval[0]:+.1f}, {100 * found.interval[1]:+.1f}]"
    return ExperimentShown(
        effect=effect,
        e_value=f"{found.e_value:.3g}/{found.threshold:g}" if found.e_value and found.threshold else "",
        deltas=f"{found.deltas}/{max_pairs}",
    )


def _bounds(interval: Interval | None) -> tuple[float, float] | None:
    if interval is None or interval.low is None or interval.high is None:
        return None
    return interval.low, interval.high


def _arm_means(experiment: KVCacheExperiment, *, candidate: bool) -> dict[str, float]:
    spec = experiment.spec
    values: dict[str, list[float]] = {}
    for row in experiment.status.rows:
        figures = row.candidate if candidate else row.control
        if row.block < 0 or row.dropped is not None or figures is None:
            continue
        seconds = row.end - row.start
        config = spec.candidate if candidate else spec.incumbent
        found: dict[str, float | Missing] = {
            "objective": score(figures, seconds, config, spec.policy_spec),
            HIT_RATE: guardrail_value(HIT_RATE, figures, seconds),
            TTFT: guardrail_value(TTFT, figures, seconds),
        }
        stalls = stall_shares(figures)
        found |= {} if isinstance(stalls, Missing) else stalls
        for name, value in found.items():
            if not isinstance(value, Missing):
                values.setdefault(name, []).append(value)
    return {name: math.fsum(many) / len(many) for name, many in values.items()}
