"""Decide, in the resting phase Idle, whether an experiment starts, and with what. Pure.

Everything that could make an experiment worthless or too dangerous is refused here, before any exposure:
too few agents, no traffic, no power, no time. Each refusal is a reason that the user sees.
"""

from dataclasses import replace
from typing import Final

from kvtune_api.codec import digest
from kvtune_api.experiment import ExperimentSpec, ExperimentStatus, Kind, KVCacheExperiment
from kvtune_api.metadata import Metadata
from kvtune_api.names import ConditionType, Phase, Reason
from kvtune_api.policy import Mode
from kvtune_api.status import Condition, Pair, Truth
from kvtune_tuner.assign import experiment_seed, pairing_hash
from kvtune_tuner.candidate import next_candidate
from kvtune_tuner.design import Design, designed, guardrail_plans, most_pairs, pairing, underpowered
from kvtune_tuner.draft import (
    Draft,
    condition,
    moment,
    runs,
    waiting,
    with_condition,
    with_event,
    with_status,
)
from kvtune_tuner.effect import hit_rate
from kvtune_tuner.epochs import armed, first_run_in
from kvtune_tuner.observe import pool_window
from kvtune_tuner.permits import refusal
from kvtune_tuner.pool import hold
from kvtune_tuner.proposal import Candidate, NothingToTry, Request, Service
from kvtune_tuner.schedule import (
    estimated_duration_s,
    shortest_duration_s,
)
from kvtune_tuner.sli import Missing
from kvtune_tuner.ttft import quantile_bounds
from kvtune_tuner.workload import remembered, workload_of, workload_shifted

AGAIN_SECONDS = 600.0
"""After a proposal that started nothing another is made when the clock has passed the next multiple of this.

No time is written down for it, so a policy that rests for long writes nothing.
"""

OBSERVE_AGAIN_SECONDS = 60.0
SMALLEST_GAIN_MOVE = 0.005
"""Mode Observe: the gain predicted for the same candidate follows in steps of half a point."""

_FRUITLESS = frozenset(
    {Reason.NOTHING_TO_TRY, Reason.UNDERPOWERED, Reason.TOO_LONG, Reason.BUDGET, Reason.OBSERVING}
)

USER: Final = "User"
"""Strategy of an experiment that a user asked for by `kvtune try`."""


def considered(draft: Draft) -> Draft:
    """Start an experiment if one may start; else say why not."""
    reason_and_why = held(draft)
    if reason_and_why is not None:
        return resting(draft, *reason_and_why)
    known = draft.status.trials
    draft = _with_shift(draft)
    last = condition(draft.status, ConditionType.EXPERIMENTING)
    if last is not None and draft.status.trials == known and _is_fresh(draft, last):
        return waiting(draft, last.message)
    proposal = _proposal(draft)
    if isinstance(proposal, NothingToTry):
        status = replace(draft.status, next_try_at=proposal.retry_at, would_try=None, would_gain=None)
        return resting(with_status(draft, status), Reason.NOTHING_TO_TRY, proposal.reason)
    if draft.seen.policy.spec.mode is Mode.OBSERVE:
        return _observing(draft, proposal)
    return started(draft, proposal)


def _is_fresh(draft: Draft, last: Condition) -> bool:
    """Whether what was last proposed without starting anything still stands."""
    if last.reason not in _FRUITLESS or last.observed_generation != draft.seen.policy.metadata.generation:
        return False
    every = OBSERVE_AGAIN_SECONDS if last.reason is Reason.OBSERVING else AGAIN_SECONDS
    return draft.now_s // every == (draft.now_s - draft.ticks) // every


def resting(draft: Draft, reason: Reason, why: str) -> Draft:
    """Say why no experiment runs."""
    draft = with_condition(draft, ConditionType.EXPERIMENTING, Truth.FALSE, reason, why)
    return waiting(draft, why)


def held(draft: Draft, *, asked: bool = False) -> tuple[Reason, str] | None:
    """Why nothing can start now."""
    status, now = draft.status, draft.seen.now
    if (found := hold(draft) or refusal(draft)) is not None:
        return (found.reason, found.message)
    if status.incumbent is None:
        return (Reason.MIXED_CONFIGS, status.waiting_for or "no start configuration is known")
    off = [n for n, r in zip(draft.names, draft.reports, strict=True) if not runs(r, status.incumbent)]
    if off and draft.seen.policy.spec.mode is not Mode.OBSERVE:
        return (Reason.OUT_OF_SYNC, f"{len(off)} agents are still changing to the incumbent")
    traffic = pool_window(draft)
    if isinstance(traffic, Missing):
        metrics = condition(status, ConditionType.METRICS_AVAILABLE)
        assert metrics is not None, "set by observed"
        return (metrics.reason, f"measurements: {traffic.reason}; the condition MetricsAvailable says why")
    if (why := _half_span(draft, traffic.seconds)) is not None:
        return (Reason.NO_DATA, why)
    if asked:
        return None
    if status.cooldown_until is not None and now < status.cooldown_until:
        return (Reason.COOLDOWN, f"cooldown until {status.cooldown_until:%H:%M:%S}")
    if status.next_try_at is not None and now < status.next_try_at:
        resting = condition(status, ConditionType.EXPERIMENTING)
        return (resting.reason, resting.message) if resting else (Reason.NOTHING_TO_TRY, "nothing to try")
    return None


def _half_span(draft: Draft, seconds: float) -> str | None:
    span = draft.seen.policy.spec.metrics.span.seconds
    if seconds >= span / 2:
        return None
    return f"the incumbent's own measurement comes first: {seconds:.0f} of {span:.0f} s seen"


def _with_shift(draft: Draft) -> Draft:
    """Remember the workload; when it has moved, old losses no longer count against a candidate."""
    now = workload_of(draft.reports)
    then = draft.status.workload
    if then is None:
        return with_status(draft, replace(draft.status, workload=now))
    moved = workload_shifted(then, now) if draft.status.trials else None
    if moved is None:
        return with_status(draft, replace(draft.status, workload=remembered(then, now)))
    trials = tuple(replace(trial, shifted=True) for trial in draft.status.trials)
    draft = with_status(draft, replace(draft.status, trials=trials, workload=now))
    return with_event(
        draft, Reason.SUPERSEDED, f"the workload has shifted, earlier losses count no more: {moved}"
    )


def _proposal(draft: Draft) -> Candidate | NothingToTry:
    incumbent = draft.status.incumbent
    assert incumbent is not None, "checked by _held"
    spec = draft.seen.policy.spec
    if spec.mode is Mode.AA_TEST:
        return Candidate(config=incumbent, strategy=spec.strategy, why="A/A: candidate equals incumbent")
    return next_candidate(
        Request(
            spec=spec,
            space=draft.space,
            incumbent=incumbent,
            reports=draft.reports,
            trials=draft.status.trials,
            noise=draft.status.noise.objective if draft.status.noise else None,
            seed=experiment_seed(draft.seen.policy.metadata.uid or "", draft.status.experiments_started + 1),
            now=draft.seen.now,
            service=_service(draft),
        )
    )


def _service(draft: Draft) -> Service:
    found = pool_window(draft)
    target = draft.seen.policy.spec.targets.ttft
    if isinstance(found, Missing):
        return Service()
    rate = hit_rate(found)
    bounds = quantile_bounds(found, target.quantile) if target else None
    seconds = None if bounds is None or isinstance(bounds, Missing) else bounds.high_s or bounds.low_s
    return Service(hit_rate=None if isinstance(rate, Missing) else rate, ttft_seconds=seconds)


def _observing(draft: Draft, proposal: Candidate) -> Draft:
    last = condition(draft.status, ConditionType.EXPERIMENTING)
    known, gain = draft.status.would_gain, proposal.predicted_gain
    same = draft.status.would_try == proposal.config and last is not None and last.reason is Reason.OBSERVING
    if same and last is not None and abs((known or 0.0) - (gain or 0.0)) < SMALLEST_GAIN_MOVE:
        return resting(draft, Reason.OBSERVING, last.message)
    status = replace(draft.status, would_try=proposal.config, would_gain=gain, next_try_at=None)
    return resting(with_status(draft, status), Reason.OBSERVING, f"mode Observe: would try {proposal.why}")


def started(draft: Draft, candidate: Candidate) -> Draft:
    """Start an experiment with this candidate, or refuse it for its power, its length or the time left."""
    pairs, noise_known = pairing(draft)
    run_in = not noise_known
    noise = draft.status.noise if noise_known else None
    design = designed(draft, candidate, len(pairs), noise, run_in=run_in)
    if candidate.max_pairs is not None and underpowered(design) is not None:
        candidate = replace(candidate, max_pairs=None)  # a short look would show nothing: the policy's length
        design = designed(draft, candidate, len(pairs), noise, run_in=run_in)
    doubtful = noise is not None and not noise.from_run_in and _must_have_power(draft, candidate.strategy)
    if doubtful and underpowered(design) is not None:
        noise, run_in = None, True  # the sd under a large effect is not that of a small one: measure it anew
        design = designed(draft, candidate, len(pairs), noise, run_in=run_in)
    refused = _refused(draft, candidate, design)
    if refused is not None:
        reason, why = refused
        draft = with_status(draft, replace(draft.status, power=design.power))
        return resting(draft, reason, why)
    draft = _created(draft, candidate, pairs, design, run_in=run_in)
    if run_in:
        return first_run_in(draft)
    assert noise is not None, "no run-in means that the noise is known"
    return armed(draft, noise, guardrail_plans(draft, noise.guardrails))


def _refused(draft: Draft, candidate: Candidate, design: Design) -> tuple[Reason, str] | None:
    settings = draft.seen.policy.spec.experiment
    if _must_have_power(draft, candidate.strategy) and (why := underpowered(design)) is not None:
        return Reason.UNDERPOWERED, why
    longest = estimated_duration_s(design.timing)
    if longest > settings.max_duration.seconds:
        return (
            Reason.TOO_LONG,
            f"an experiment may take {longest / 3600:.1f} h, maxDuration is {settings.max_duration}",
        )
    shortest = shortest_duration_s(design.timing, settings.min_pairs)
    if draft.seen.ends_at is not None:
        left = (draft.seen.ends_at - draft.seen.now).total_seconds()
        if shortest > left:
            return (
                Reason.BUDGET,
                f"an experiment takes at least {shortest:.0f} s and {max(left, 0):.0f} s are left; "
                f"next would be {candidate.why}",
            )
    return None


def _must_have_power(draft: Draft, strategy: str) -> bool:
    """A/A tests look for nothing, and who asks for a candidate by hand may try it with little power."""
    return draft.seen.policy.spec.mode is not Mode.AA_TEST and strategy != USER


def _created(
    draft: Draft, candidate: Candidate, pairs: tuple[Pair, ...], design: Design, *, run_in: bool
) -> Draft:
    policy = draft.seen.policy
    number = draft.status.experiments_started + 1
    name = f"{policy.metadata.name}-{number:05d}"
    incumbent = draft.status.incumbent
    assert incumbent is not None, "checked by _held"
    spec = ExperimentSpec(
        policy=policy.metadata.name,
        policy_uid=policy.metadata.uid or policy.metadata.name,
        policy_spec=policy.spec,
        policy_hash=digest(policy.spec),
        number=number,
        kind=Kind.AA if policy.spec.mode is Mode.AA_TEST else Kind.GAIN,
        incumbent=incumbent,
        candidate=candidate.config,
        strategy=str(candidate.strategy),
        why=candidate.why[:500],
        predicted_gain=candidate.predicted_gain,
        predicted_objective=candidate.predicted_objective,
        seed=experiment_seed(policy.metadata.uid or "", number),
        pairs=pairs,
        pairing=pairing_hash([(pair.first, pair.second) for pair in pairs]),
        max_pairs=most_pairs(candidate, policy.spec.experiment),
        run_in=run_in,
    )
    expected = replace(
        design.timing, pairs=min(design.timing.pairs, max(policy.spec.experiment.min_pairs, 9))
    )
    end = draft.now_s + estimated_duration_s(expected)
    record = ExperimentStatus(
        spec_digest=digest(spec),
        phase=Phase.PROPOSED,
        phase_since=draft.now_s,
        started_at=draft.now_s,
        last_data_at=draft.now_s,
        washout=design.washout,
        window=design.window,
        power=design.power,
        guardrail_power=design.guardrail_power,
        estimated_end=end,
    )
    metadata = Metadata(
        name=name, namespace=policy.metadata.namespace, labels={"kvtune.dev/policy": spec.policy}
    )
    draft = replace(draft, experiment=KVCacheExperiment(metadata=metadata, spec=spec, status=record))
    status = replace(
        draft.status,
        experiment=name,
        experiments_started=number,
        estimated_end=moment(end),
        power=design.power,
        would_try=None,
        would_gain=None,
        next_try_at=None,
        cooldown_until=None,
    )
    draft = with_status(draft, status)
    running = f"{name}: {candidate.why}"
    draft = with_condition(draft, ConditionType.EXPERIMENTING, Truth.TRUE, Reason.RUNNING, running)
    return with_event(draft, Reason.EXPERIMENT_STARTED, running)
