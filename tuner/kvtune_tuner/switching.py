"""Look at the agents of a running epoch: have they switched, have they lapsed, can their pairs count? Pure.

Nothing here knows or asks which arm an agent is in, except to compare it with its assignment.
"""

from dataclasses import replace

from kvtune_api.experiment import BlockKind, Epoch
from kvtune_api.names import Reason
from kvtune_api.wire import Role
from kvtune_tuner.assign import Arm, arms
from kvtune_tuner.draft import Draft, grid_up, runs, runs_candidate, wall, with_record, with_warning
from kvtune_tuner.leavers import AGENT_LEFT, is_out, taking_part

RUN_IN_BLOCKS = (-2, -1)
"""Run-in blocks have negative numbers; test blocks count from 0."""

CONFIRM_TICKS = 2
"""Agents that answer but do not run the epoch after so many ticks: it was switched late, W restarts."""

LATE_LEASES = 3
"""After so many leases of restarted washouts an agent that does not switch costs its pair the epoch."""


def assignment(draft: Draft, epoch: Epoch) -> dict[str, Arm]:
    """Which agent of the experiment is in which arm in an epoch."""
    spec = draft.live.spec
    pairs = [(pair.first, pair.second) for pair in spec.pairs]
    return arms(spec.seed, block=epoch.block, epoch=epoch.epoch, pairs=pairs, attempt=epoch.attempt)


def candidates_of(draft: Draft, epoch: Epoch) -> frozenset[str]:
    """Agents that are to run the candidate in a test epoch: one of each pair that takes part."""
    assigned = assignment(draft, epoch)
    agents = (name for pair in taking_part(draft, epoch) for name in (pair.first, pair.second))
    return frozenset(name for name in agents if assigned[name] is Arm.CANDIDATE)


def lapses(draft: Draft, epoch: Epoch) -> dict[str, int]:
    """How many lapsed leases each candidate agent has counted before this epoch."""
    if epoch.kind is BlockKind.RUN_IN:
        return {}
    reports = {name: draft.report(name) for name in candidates_of(draft, epoch)}
    return {name: report.running.lease_lapses for name, report in reports.items() if report is not None}


def lapsed(draft: Draft, epoch: Epoch) -> list[str]:
    """Candidate agents that took this epoch's configuration and gave it up by themselves since."""
    found = []
    for name, before in epoch.lapses.items():
        if epoch.troubled.get(name) == AGENT_LEFT:
            continue  # its pair is lost in this epoch, whatever it runs
        report = draft.report(name)
        restarted = report is not None and report.started_at >= epoch.switch_at
        if report is not None and not restarted and report.running.lease_lapses > before:
            found.append(name)
    return found


def watched_agents(draft: Draft, epoch: Epoch) -> Draft:
    """Note which agents of the experiment cannot count in this epoch, blind to their arm."""
    record = draft.live.status
    troubled = dict(epoch.troubled)
    for pair in taking_part(draft, epoch):
        for name in (pair.first, pair.second):
            if name not in troubled and (why := _trouble(draft, epoch, name)) is not None:
                troubled[name] = why
    if troubled == epoch.troubled:
        return draft
    for name in sorted(troubled.keys() - epoch.troubled.keys()):
        draft = with_warning(
            draft,
            Reason.EPOCH_DROPPED,
            f"{place(epoch)}: the pair of {name} does not count: {troubled[name]}",
        )
    return with_record(draft, replace(record, epoch=replace(epoch, troubled=troubled)))


def _trouble(draft: Draft, epoch: Epoch, name: str) -> str | None:
    if is_out(draft, name):
        return AGENT_LEFT
    report = draft.report(name)
    if report is None:
        return None
    if report.started_at > epoch.switch_at:
        return "Restarted"
    if epoch.confirmed and not _as_assigned(draft, epoch, name):
        return "ConfigDrift"
    return None


def _as_assigned(draft: Draft, epoch: Epoch, name: str) -> bool:
    report = draft.report(name)
    if report is None:
        return False
    spec = draft.live.spec
    if epoch.kind is BlockKind.RUN_IN or assignment(draft, epoch)[name] is Arm.CONTROL:
        return report.running.role is Role.INCUMBENT and runs(report, spec.incumbent)
    return report.running.generation == epoch.generation and runs_candidate(report, spec)


def confirmed(draft: Draft, epoch: Epoch) -> Draft:
    """Mark the epoch as running everywhere, or restart its washout when the switch came late."""
    agents = [name for pair in taking_part(draft, epoch) for name in (pair.first, pair.second)]
    open_ = [name for name in agents if name not in epoch.troubled and draft.report(name) is not None]
    off = [name for name in open_ if not _as_assigned(draft, epoch, name)]
    if not off:
        return with_record(draft, replace(draft.live.status, epoch=replace(epoch, confirmed=True)))
    late = draft.now_s - epoch.switch_at
    lease = draft.live.spec.policy_spec.experiment.lease_duration.seconds
    since = draft.now_s - draft.live.status.phase_since
    if late <= CONFIRM_TICKS * draft.ticks and draft.now_s < epoch.measure_from:
        return draft
    if since > wall(draft, LATE_LEASES * lease) + CONFIRM_TICKS * draft.ticks:
        troubled = epoch.troubled | dict.fromkeys(off, "ConfigDrift")
        return with_record(
            draft, replace(draft.live.status, epoch=replace(epoch, troubled=troubled, confirmed=True))
        )
    return with_record(draft, replace(draft.live.status, epoch=_shifted(draft, epoch)))


def _shifted(draft: Draft, epoch: Epoch) -> Epoch:
    """The epoch with its washout beginning now."""
    by = grid_up(draft.now_s) - epoch.switch_at
    return replace(
        epoch,
        switch_at=epoch.switch_at + by,
        measure_from=epoch.measure_from + by,
        measure_to=epoch.measure_to + by,
    )


def place(epoch: Epoch) -> str:
    """An epoch as people count them."""
    kind = "run-in" if epoch.kind is BlockKind.RUN_IN else "block"
    number = epoch.block - RUN_IN_BLOCKS[0] if epoch.kind is BlockKind.RUN_IN else epoch.block
    return f"{kind} {number + 1} epoch {epoch.epoch}"
