"""Run the epochs of an experiment: run-in, washout, measuring, and a verdict at every block's end. Pure.

An epoch's bounds are written down before anything is pushed, and evidence is computed from counters at these
bounds. So a control plane that was away comes to the rows of one that was not, and counts no epoch twice.
"""

from collections.abc import Sequence
from dataclasses import replace

from kvtune_api.experiment import BlockKind, Epoch, GuardrailPlan, Kind
from kvtune_api.names import Outcome, OutcomeReason, Phase, Reason
from kvtune_api.status import Noise
from kvtune_tuner.assign import coin
from kvtune_tuner.compare import s0_from_run_in
from kvtune_tuner.design import guardrail_plans, powered, underpowered
from kvtune_tuner.draft import (
    Draft,
    bumped,
    clock_time,
    ended,
    grid_up,
    turned,
    waiting,
    wall,
    with_event,
    with_record,
    with_status,
    with_warning,
)
from kvtune_tuner.judge import block_judged
from kvtune_tuner.leavers import all_gone, left_out, troubled_by_leaving
from kvtune_tuner.ledger import run_in_deltas, trimmed
from kvtune_tuner.phases import Turn
from kvtune_tuner.rows import epoch_rows, samples_awaited
from kvtune_tuner.scoring import GUARDRAILS
from kvtune_tuner.sli import MissingReason
from kvtune_tuner.switching import (
    LATE_LEASES,
    RUN_IN_BLOCKS,
    assignment,
    confirmed,
    lapsed,
    lapses,
    place,
    watched_agents,
)

THIN_TRAFFIC_FACTOR = 1.5
"""Windows with too few requests are made longer by this factor, so that minRequests can be reached again."""


def first_run_in(draft: Draft) -> Draft:
    """Begin the run-in: two blocks with equal configurations that measure the noise."""
    draft = turned(draft, Turn.RUN_IN_NEEDED, deadline=0.0)
    return _epoch(draft, RUN_IN_BLOCKS[0], 0, 1)


def armed(draft: Draft, noise: Noise, plans: Sequence[GuardrailPlan]) -> Draft:
    """Begin the test blocks: the noise is known, so the tests can be started."""
    record = replace(draft.live.status, noise_objective=noise.objective, guardrails=tuple(plans))
    return _epoch(with_record(draft, record), 0, 0, 1)


def _epoch(draft: Draft, block: int, attempt: int, epoch: int) -> Draft:
    """Write an epoch down. Its configurations are pushed after the status is safe, in the same tick."""
    assert epoch in (1, 2), epoch
    run_in = block < 0
    record = draft.live.status
    if not run_in:
        draft = bumped(draft)
    start = grid_up(draft.now_s)
    settings = draft.live.spec.policy_spec.experiment
    washout = settings.washout.min.seconds if run_in else record.washout
    measure_from = grid_up(start + washout)
    new = Epoch(
        block=block,
        attempt=attempt,
        epoch=1 if epoch == 1 else 2,
        kind=BlockKind.RUN_IN if run_in else BlockKind.TEST,
        switch_at=start,
        measure_from=measure_from,
        measure_to=grid_up(measure_from + record.window),
        generation=draft.status.push_generation,
        confirmed=run_in,
        left_out=left_out(draft),
        troubled=troubled_by_leaving(draft),
    )
    new = replace(new, lapses=lapses(draft, new))
    deadline = _deadline(draft, new)
    draft = turned(draft, Turn.EPOCH_ENDED if run_in else Turn.SWITCHED, deadline=deadline)
    draft = waiting(draft, f"washout of {place(new)} until {clock_time(measure_from)}")
    return with_record(draft, replace(draft.live.status, epoch=new))


def _deadline(draft: Draft, epoch: Epoch) -> float:
    settings = draft.live.spec.policy_spec.experiment
    grace = wall(draft, LATE_LEASES * settings.lease_duration.seconds) + 10 * draft.ticks
    return epoch.measure_to + settings.no_data_timeout.seconds + grace


def progressed(draft: Draft) -> Draft:
    """One step of the phases RunIn, Washout and Measuring."""
    epoch = draft.live.status.epoch
    assert epoch is not None, "these phases have an epoch"
    if epoch.kind is BlockKind.TEST and (back := lapsed(draft, epoch)):
        return _repeated(draft, epoch, Reason.LEASE_LAPSED, f"the lease of {', '.join(back)} ran out")
    draft = watched_agents(draft, epoch)
    if (gone := all_gone(draft, epoch)) is not None:
        return ended(draft, Outcome.INCONCLUSIVE, OutcomeReason.NO_DATA, gone)
    since, late = draft.live.status.phase_since, draft.now_s > draft.live.status.deadline
    draft = _washout(draft) if draft.live.status.phase is Phase.WASHOUT else _measuring(draft)
    if late and draft.live.status.phase_since == since:
        return ended(draft, Outcome.INCONCLUSIVE, OutcomeReason.NO_DATA, "the epoch passed its deadline")
    return draft


def _repeated(draft: Draft, epoch: Epoch, reason: Reason, why: str) -> Draft:
    """Drop the block for all pairs and begin it again with new coins."""
    record = draft.live.status
    rows = tuple(
        replace(row, dropped=row.dropped or str(reason))
        if (row.block, row.attempt) == (epoch.block, epoch.attempt)
        else row
        for row in record.rows
    )
    draft = with_record(draft, replace(record, rows=rows))
    draft = with_warning(
        draft, reason, f"{place(epoch)}: the block is repeated for all pairs with new coins: {why}"
    )
    return _epoch(draft, epoch.block, epoch.attempt + 1, 1)


def _washout(draft: Draft) -> Draft:
    epoch = draft.live.status.epoch
    assert epoch is not None
    if not epoch.confirmed:
        draft = confirmed(draft, epoch)
        epoch = draft.live.status.epoch
        assert epoch is not None
    if epoch.confirmed and draft.now_s >= epoch.measure_from:
        draft = turned(draft, Turn.WASHED_OUT, deadline=_deadline(draft, epoch))
        return waiting(draft, f"measuring {place(epoch)} until {clock_time(epoch.measure_to)}")
    return waiting(draft, f"washout of {place(epoch)} until {clock_time(epoch.measure_from)}")


def _measuring(draft: Draft) -> Draft:
    epoch = draft.live.status.epoch
    assert epoch is not None
    if draft.now_s < epoch.measure_to:
        return waiting(draft, f"measuring {place(epoch)} until {clock_time(epoch.measure_to)}")
    if (why := samples_awaited(draft, epoch)) is not None:
        return waiting(draft, why)
    record = draft.live.status
    assigned = assignment(draft, epoch)
    rows = epoch_rows(draft, epoch, assigned, _coins(draft, epoch))
    record = replace(record, rows=(*record.rows, *rows))
    if any(row.dropped is None for row in rows):
        record = replace(record, last_data_at=draft.now_s)
    draft = with_record(draft, record)
    draft = replace(draft, experiment=trimmed(draft.live))
    for why in sorted({row.dropped for row in rows if row.dropped is not None}):
        gone = sum(row.dropped == why for row in rows)
        draft = with_event(
            draft, Reason.EPOCH_DROPPED, f"{place(epoch)}: {gone} of {len(rows)} pairs do not count ({why})"
        )
    return _after_epoch(draft, epoch)


def _coins(draft: Draft, epoch: Epoch) -> list[bool]:
    spec = draft.live.spec
    return [
        coin(spec.seed, block=epoch.block, pair_index=index, attempt=epoch.attempt)
        for index in range(len(spec.pairs))
    ]


def _after_epoch(draft: Draft, epoch: Epoch) -> Draft:
    mine = [r for r in draft.live.status.rows if (r.block, r.attempt) == (epoch.block, epoch.attempt)]
    lost = {row.pair for row in mine if row.dropped is not None}
    if lost >= set(range(len(draft.live.spec.pairs))):
        return _nothing_left(draft, epoch)
    if epoch.epoch == 1:
        return _epoch(draft, epoch.block, epoch.attempt, 2)
    if epoch.kind is BlockKind.RUN_IN:
        return _run_in_block_done(draft, epoch)
    draft = block_judged(draft)
    if draft.live.status.outcome is not None or draft.live.status.phase is not Phase.MEASURING:
        return draft
    return _epoch(draft, epoch.block + 1, 0, 1)


def _nothing_left(draft: Draft, epoch: Epoch) -> Draft:
    """No pair counts in this block: repeat it, unless there has been no data for too long."""
    settings = draft.live.spec.policy_spec.experiment
    silent = draft.now_s - draft.live.status.last_data_at
    block = 2 * (epoch.measure_to - epoch.switch_at)
    if silent > settings.no_data_timeout.seconds + block:
        why = f"no pair gave usable data for {silent:.0f} s (noDataTimeout {settings.no_data_timeout})"
        return ended(draft, Outcome.INCONCLUSIVE, OutcomeReason.NO_DATA, why)
    return _epoch(_with_longer_window(draft, epoch), epoch.block, epoch.attempt + 1, 1)


def _with_longer_window(draft: Draft, epoch: Epoch) -> Draft:
    """Make the windows longer, within the policy's bounds, when traffic has become too thin for them."""
    record = draft.live.status
    mine = [row for row in record.rows if (row.block, row.attempt) == (epoch.block, epoch.attempt)]
    if not any(row.dropped == MissingReason.TOO_FEW_REQUESTS for row in mine):
        return draft
    most = draft.live.spec.policy_spec.experiment.window.max.seconds
    window = max(record.window, min(most, grid_up(record.window * THIN_TRAFFIC_FACTOR)))
    return with_record(draft, replace(record, window=window))


def _run_in_block_done(draft: Draft, epoch: Epoch) -> Draft:
    if epoch.block != RUN_IN_BLOCKS[-1]:
        return _epoch(draft, epoch.block + 1, 0, 1)
    noise = _measured_noise(draft)
    if noise is None:
        return _nothing_left(draft, epoch)
    draft = with_status(draft, replace(draft.status, noise=noise))
    plans = guardrail_plans(draft, noise.guardrails)
    spec = draft.live.spec
    chances = powered(draft, spec.predicted_gain, spec.max_pairs, len(spec.pairs), noise)
    draft = with_record(
        draft, replace(draft.live.status, power=chances.power, guardrail_power=chances.guardrail_power)
    )
    draft = with_status(draft, replace(draft.status, power=chances.power))
    if spec.kind is Kind.GAIN and spec.strategy != "User" and (why := underpowered(chances)) is not None:
        return ended(draft, Outcome.ABORTED, OutcomeReason.UNDERPOWERED, why)
    return armed(draft, noise, plans)


def _measured_noise(draft: Draft) -> Noise | None:
    """The sd of Deltas with equal configurations: s0^2 = mean x^2 (experiments.md 13)."""
    deltas = run_in_deltas(draft.live, GUARDRAILS)
    objective = [delta.objective for delta in deltas if delta.objective is not None]
    if len(objective) < 2:
        return None
    guardrails = {}
    for name in GUARDRAILS:
        values = [value for delta in deltas if (value := delta.guardrails.get(name)) is not None]
        if values:
            guardrails[name] = s0_from_run_in(values)
    return Noise(
        objective=max(s0_from_run_in(objective), 1e-4),
        guardrails=guardrails,
        measured_at=draft.seen.now,
        pairs=draft.live.spec.pairs,
        pairing=draft.live.spec.pairing,
    )
