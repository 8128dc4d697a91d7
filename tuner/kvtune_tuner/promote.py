"""Promote a winner: ramp it over the pool, then watch it against a holdback. Pure.

Until the watch is over the winner runs everywhere as a candidate under a lease: if the control plane dies,
every agent returns to the incumbent by itself.
"""

import math
from dataclasses import replace

from kvtune_api.experiment import KVCacheExperiment, WatchState
from kvtune_api.names import Outcome, OutcomeReason
from kvtune_api.wire import Role
from kvtune_tuner.draft import (
    Draft,
    bumped,
    clock_time,
    ended,
    grid_up,
    runs_candidate,
    turned,
    waiting,
    wall,
    window,
    with_record,
)
from kvtune_tuner.effect import objective, pair_difference
from kvtune_tuner.leavers import is_going
from kvtune_tuner.ledger import blocks, read
from kvtune_tuner.phases import Turn
from kvtune_tuner.rows import LATE_WALL_SECONDS
from kvtune_tuner.scoring import gib_configured, prices, score
from kvtune_tuner.sli import Missing, MissingReason
from kvtune_tuner.watch import Keep, Revert, Unknown, Wait, WatchRule, watch_verdict

RAMP_TICKS = 60
"""A promotion that has not reached the pool after so many ticks (and three leases) has failed."""


def begin_promotion(draft: Draft, turn: Turn) -> Draft:
    """Start the ramp: the arms' agents first, then twice as many in each step."""
    lease = draft.live.spec.policy_spec.experiment.lease_duration.seconds
    deadline = draft.now_s + RAMP_TICKS * draft.ticks + wall(draft, 3 * lease)
    draft = bumped(turned(draft, turn, deadline=deadline))
    record = draft.live.status
    since = grid_up(draft.now_s)
    ramp = 2 * len(draft.live.spec.pairs) - 1
    record = replace(
        record,
        promoting_since=since,
        promoted_agents=ramp,
        epoch=None,
        watch=watch_state(draft.live),
    )
    return with_record(draft, record)


def watch_state(experiment: KVCacheExperiment) -> WatchState:
    """Hold back the second agent of the pair that counted most often (the best match among equals)."""
    usable = [
        (epoch_pair, row)
        for block in blocks(experiment.status.rows, run_in=False)
        for row in block.rows
        if row.dropped is None
        for epoch_pair in (row.pair,)
    ]
    counted = [sum(pair == index for pair, _ in usable) for index in range(len(experiment.spec.pairs))]
    index = counted.index(max(counted))
    pair = experiment.spec.pairs[index]
    differences = _own_differences(experiment, index)
    readings = read(experiment)
    sd = readings[-1].tests.superior.sd if readings else None
    return WatchState(
        holdback=pair.second,
        partner=pair.first,
        pair=index,
        epochs=max(2 * len(differences), 1),
        sd_delta=sd or experiment.status.noise_objective or 0.0,
        pair_difference=math.fsum(differences) / len(differences) if differences else 0.0,
    )


def _own_differences(experiment: KVCacheExperiment, index: int) -> list[float]:
    """First minus second agent of a pair, one figure per block: the mean of both epochs cancels the arms."""
    spec, found = experiment.spec, []
    for block in blocks(experiment.status.rows, run_in=False):
        mine = sorted((r for r in block.rows if r.pair == index), key=lambda row: row.epoch)
        if len(mine) != 2 or any(row.dropped is not None for row in mine):
            continue
        epochs = []
        for row in mine:
            seconds = row.end - row.start
            candidate = score(row.candidate, seconds, spec.candidate, spec.policy_spec)
            control = score(row.control, seconds, spec.incumbent, spec.policy_spec)
            second_is_candidate = row.coin == (row.epoch == 1)
            epochs.append((control, candidate) if second_is_candidate else (candidate, control))
        own = pair_difference(epochs[0], epochs[1])
        if not isinstance(own, Missing):
            found.append(own)
    return found


def promoted_agents(experiment: KVCacheExperiment, names: tuple[str, ...]) -> tuple[str, ...]:
    """Which of the present agents run the winner now: those of the arms first, then by name.

    Never the holdback.
    """
    record = experiment.status
    holdback = record.watch.holdback if record.watch else ""
    arms = [name for pair in experiment.spec.pairs for name in (pair.first, pair.second) if name in names]
    order = [*arms, *sorted(set(names) - set(arms))]
    return tuple(name for name in order if name != holdback)[: record.promoted_agents]


def promoting(draft: Draft) -> Draft:
    """One step of the ramp."""
    if gone := _watched_pair(draft) - draft.present:
        text = f"{', '.join(sorted(gone))} left: the pair by which the promotion is watched is no more"
        return ended(draft, Outcome.INCONCLUSIVE, OutcomeReason.NO_DATA, text)
    names = tuple(agent.name for agent in draft.seen.agents)
    targets = promoted_agents(draft.live, names)
    draft = _unconflicted(draft, targets)
    record = draft.live.status
    open_ = [name for name in targets if not _runs_candidate(draft, name) and not _is_lost(draft, name)]
    if open_:
        if draft.now_s > record.deadline and set(open_) == set(targets):
            text = "nobody runs the winner at the deadline: it was not pushed, or taken by no agent"
            return ended(draft, Outcome.INCONCLUSIVE, OutcomeReason.NO_DATA, text)
        if draft.now_s > record.deadline:
            text = f"{len(open_)} agents did not take the winner in time: {', '.join(open_[:5])}"
            return ended(draft, Outcome.ROLLED_BACK, OutcomeReason.PROMOTION_FAILED, text)
        return waiting(
            draft, f"promoting: {len(targets) - len(open_)} of {len(names) - 1} agents run the winner"
        )
    if len(targets) < len(names) - 1:
        return bumped(with_record(draft, replace(record, promoted_agents=2 * record.promoted_agents)))
    return _begin_watch(draft)


def _unconflicted(draft: Draft, targets: tuple[str, ...]) -> Draft:
    """Take a new generation if one agent must change sides within this one (others joined or left)."""
    for name, report in zip(draft.names, draft.reports, strict=True):
        is_candidate = report.running.role is Role.CANDIDATE
        if is_candidate and name not in targets and report.running.generation == draft.live.status.generation:
            return bumped(draft)
    return draft


def _is_lost(draft: Draft, name: str) -> bool:
    """Whether an agent is about to go, or one outside the arms does not answer: neither stops a promotion.

    When it comes back it is told what to run like every other.
    """
    if is_going(draft, name):
        return True
    arms = {name for pair in draft.live.spec.pairs for name in (pair.first, pair.second)}
    return name not in arms and draft.report(name) is None


def _watched_pair(draft: Draft) -> frozenset[str]:
    watch = draft.live.status.watch
    assert watch is not None, "set when the promotion began"
    return frozenset({watch.holdback, watch.partner})


def _runs_candidate(draft: Draft, name: str) -> bool:
    report, record = draft.report(name), draft.live.status
    return (
        report is not None
        and report.running.generation == record.generation
        and runs_candidate(report, draft.live.spec)
    )


def _begin_watch(draft: Draft) -> Draft:
    record, settings = draft.live.status, draft.live.spec.policy_spec.experiment
    start = grid_up(draft.now_s + record.washout)
    length = grid_up(record.window)
    windows = tuple((start + k * length, start + (k + 1) * length) for k in range(settings.watch_windows))
    assert record.watch is not None, "set when the promotion began"
    grace = settings.no_data_timeout.seconds + wall(draft, 3 * settings.lease_duration.seconds)
    draft = turned(draft, Turn.RAMPED, deadline=windows[-1][1] + grace + 10 * draft.ticks)
    record = draft.live.status
    assert record.watch is not None
    return with_record(draft, replace(record, watch=replace(record.watch, windows=windows)))


def watching(draft: Draft) -> Draft:
    """One step of the watch: take in windows that are over, then keep, revert or wait."""
    if draft.now_s > draft.live.status.deadline:
        return ended(draft, Outcome.INCONCLUSIVE, OutcomeReason.NO_DATA, "the watch passed its deadline")
    targets = promoted_agents(draft.live, tuple(agent.name for agent in draft.seen.agents))
    draft = _measured_windows(_shifted(_unconflicted(draft, targets)))
    watch = draft.live.status.watch
    assert watch is not None, "set when the promotion began"
    match watch_outcome(watch):
        case Wait(message=message):
            until = clock_time(watch.windows[len(watch.differences)][1])
            return waiting(draft, f"watching the promotion: {message}, the next until {until}")
        case Revert(message=message):
            return ended(draft, Outcome.ROLLED_BACK, OutcomeReason.WATCH, message)
        case Unknown(message=message):
            return ended(draft, Outcome.INCONCLUSIVE, OutcomeReason.NO_DATA, message)
        case Keep(message=message):
            return _promoted(draft, message)


def watch_outcome(watch: WatchState) -> Wait | Keep | Revert | Unknown:
    """What the watch's record says; replay asks the same."""
    missing = Missing(reason=MissingReason.NO_DATA, message="this window of the watch has no figures")
    return watch_verdict(
        [missing if value is None else value for value in watch.differences],
        watch.pair_difference,
        WatchRule(windows=len(watch.windows), epochs=watch.epochs, sd_delta=watch.sd_delta),
    )


def _shifted(draft: Draft) -> Draft:
    """Begin the open windows again when the promoted agent of the pair has gone back by itself.

    Its lease ran out or it restarted; what it serves since is not the winner's doing. The deadline stays.
    """
    record = draft.live.status
    assert record.watch is not None
    report = draft.report(record.watch.partner)
    if report is None or runs_candidate(report, draft.live.spec):
        return draft
    done = len(record.watch.differences)
    start, length = grid_up(draft.now_s + record.washout), grid_up(record.window)
    windows = tuple(
        (start + k * length, start + (k + 1) * length) for k in range(len(record.watch.windows) - done)
    )
    watch = replace(record.watch, windows=(*record.watch.windows[:done], *windows))
    return with_record(draft, replace(record, watch=watch))


def _measured_windows(draft: Draft) -> Draft:
    watch = draft.live.status.watch
    assert watch is not None
    differences = list(watch.differences)
    gone = not _watched_pair(draft) <= draft.present
    for start, end in watch.windows[len(differences) :]:
        if draft.now_s < end and gone:  # what is known by now decides
            differences.append(None)
            continue
        if draft.now_s < end:
            break
        found = _difference(draft, watch, start, end)
        grace = max(2 * draft.ticks, wall(draft, LATE_WALL_SECONDS))
        if isinstance(found, Missing) and draft.now_s - end < grace and not gone:
            break
        differences.append(None if isinstance(found, Missing) else found)
    return with_record(
        draft, replace(draft.live.status, watch=replace(watch, differences=tuple(differences)))
    )


def _difference(draft: Draft, watch: WatchState, start: float, end: float) -> float | Missing:
    spec = draft.live.spec
    values = []
    for name, config in ((watch.partner, spec.candidate), (watch.holdback, spec.incumbent)):
        counts = window(draft, name, start, end)
        if isinstance(counts, Missing):
            return counts
        value = objective(counts, gib_configured=gib_configured(config), prices=prices(spec.policy_spec))
        if isinstance(value, Missing):
            return value
        values.append(value)
    return values[0] - values[1]


def _promoted(draft: Draft, message: str) -> Draft:
    """The watch is over. The winner becomes the incumbent when the experiment is recorded, in this tick."""
    won = f"{draft.live.status.message}; watch: {message}"
    draft = turned(draft, Turn.WATCHED, deadline=draft.now_s)
    record = replace(
        draft.live.status,
        outcome=Outcome.PROMOTED,
        reason=OutcomeReason.SUPERIOR,
        message=won[:1000],
        decided_at=draft.now_s,
    )
    return with_record(draft, record)
