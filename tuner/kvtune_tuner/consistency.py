"""Check that a ledger agrees with itself beyond its tests: coins, digests, the watch, and the outcome. Pure.

A ledger is evidence, not a proof against a forger who recomputes all of it; but an edit of one thing shows.
"""

import math

from kvtune_api.codec import digest
from kvtune_api.evidence import Evidence
from kvtune_api.experiment import ExperimentStatus, Kind, KVCacheExperiment
from kvtune_api.names import Outcome, OutcomeReason
from kvtune_tuner.assign import coin
from kvtune_tuner.evidence import evidence
from kvtune_tuner.ledger import Reading
from kvtune_tuner.promote import watch_outcome, watch_state
from kvtune_tuner.watch import Keep, Revert

AFTER_PROMOTE = {
    Outcome.PROMOTED: {OutcomeReason.SUPERIOR},
    Outcome.ROLLED_BACK: {OutcomeReason.BREAKER, OutcomeReason.WATCH, OutcomeReason.PROMOTION_FAILED},
    Outcome.INCONCLUSIVE: {OutcomeReason.NO_DATA, OutcomeReason.NOT_APPROVED},
    Outcome.ABORTED: set(OutcomeReason),
}
"""How an experiment may end after its tests said Promote."""


def inconsistencies(experiment: KVCacheExperiment, readings: list[Reading]) -> list[str]:
    """Everything in which the ledger contradicts itself."""
    return [
        *_digests(experiment),
        *_coins(experiment),
        *_decisions(experiment, readings),
        *_evidence(experiment),
        *_watch(experiment),
        *_outcome(experiment),
    ]


def _digests(experiment: KVCacheExperiment) -> list[str]:
    spec, found = experiment.spec, []
    if experiment.status.spec_digest != digest(spec):
        found.append(
            f"spec: its digest is recorded as {experiment.status.spec_digest or 'none'}, it is {digest(spec)}"
        )
    if spec.policy_hash != digest(spec.policy_spec):
        found.append(
            f"spec: policyHash is {spec.policy_hash}, the policy's digest {digest(spec.policy_spec)}"
        )
    return found


def _coins(experiment: KVCacheExperiment) -> list[str]:
    seed = experiment.spec.seed
    return [
        f"block {row.block} attempt {row.attempt} pair {row.pair}: the coin is not that of the seed"
        for row in experiment.status.rows
        if row.coin != coin(seed, block=row.block, pair_index=row.pair, attempt=row.attempt)
    ]


def _decisions(experiment: KVCacheExperiment, readings: list[Reading]) -> list[str]:
    """A whole block with Deltas must have been decided upon."""
    decided = {(decision.block, decision.attempt) for decision in experiment.status.decisions}
    before, found = 0, []
    for reading in readings:
        key, counted = (reading.block.number, reading.block.attempt), reading.tests.n > before
        before = reading.tests.n
        if counted and key not in decided:
            found.append(f"block {key[0]} attempt {key[1]}: its rows are there but no decision is recorded")
    return found


def _evidence(experiment: KVCacheExperiment) -> list[str]:
    recorded, found = experiment.status.evidence, evidence(experiment)
    if recorded == Evidence():
        return []
    return [
        f"evidence: {name} is recorded as {old} and recomputed as {new}"
        for name, old, new in (
            ("deltas", recorded.deltas, found.deltas),
            ("effect", recorded.effect, found.effect),
            ("eValue", recorded.e_value, found.e_value),
        )
        if not _same(old, new)
    ]


def _same(old: float | None, new: float | None) -> bool:
    if old is None or new is None:
        return old is new
    return math.isclose(old, new, rel_tol=1e-9, abs_tol=1e-12)


def _watch(experiment: KVCacheExperiment) -> list[str]:
    """What the watch compares with must follow from the rows."""
    recorded = experiment.status.watch
    if recorded is None:
        return []
    found = watch_state(experiment)
    return [
        f"watch: {name} is recorded as {old} and recomputed as {new}"
        for name, old, new in (
            ("pair", recorded.pair, found.pair),
            ("epochs", recorded.epochs, found.epochs),
            ("sdDelta", recorded.sd_delta, found.sd_delta),
            ("pairDifference", recorded.pair_difference, found.pair_difference),
        )
        if not _same(old, new)
    ] + ([] if recorded.holdback == found.holdback else [f"watch: holdback is {recorded.holdback}"])


def _outcome(experiment: KVCacheExperiment) -> list[str]:
    """The outcome must follow from the last decision, the breaker and the watch."""
    record = experiment.status
    if record.outcome is None:
        return []
    last = record.decisions[-1] if record.decisions else None
    verdict = last.verdict if last else "none"
    ended = f"outcome {record.outcome}({record.reason})"
    broke = record.outcome is Outcome.ROLLED_BACK and record.reason is OutcomeReason.BREAKER
    found = []
    if broke != (record.breach is not None):
        found.append(f"{ended}, but a breach is {'not' if broke else 'also'} recorded")
    if not _follows(record, verdict, last.reason if last else ""):
        found.append(f"{ended}, but the last verdict is {verdict}")
    return found + _watched(experiment, ended)


def _follows(record: ExperimentStatus, verdict: str, reason: str) -> bool:
    assert record.outcome is not None
    match verdict:
        case "Promote":
            return record.reason in AFTER_PROMOTE.get(record.outcome, set())
        case "Reject":
            return record.outcome is Outcome.REJECTED and record.reason == reason
        case "Inconclusive":
            return record.outcome is Outcome.INCONCLUSIVE and record.reason == reason
        case _:
            decided = record.outcome in (Outcome.PROMOTED, Outcome.REJECTED)
            return not decided and record.reason not in (OutcomeReason.MAX_PAIRS, OutcomeReason.SAMPLE_RATIO)


def _watched(experiment: KVCacheExperiment, ended: str) -> list[str]:
    record, watch = experiment.status, experiment.status.watch
    promoted = record.outcome is Outcome.PROMOTED
    if watch is None or not watch.windows:
        needed = promoted and experiment.spec.kind is Kind.GAIN
        return [f"{ended}, but no watch is recorded"] if needed else []
    says = watch_outcome(watch)
    reverted = record.outcome is Outcome.ROLLED_BACK and record.reason is OutcomeReason.WATCH
    if isinstance(says, Keep) == promoted and isinstance(says, Revert) == reverted:
        return []
    return [f"{ended}, but the watch says: {says.message}"]
