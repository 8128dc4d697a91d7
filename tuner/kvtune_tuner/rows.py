"""Make the ledger's rows of an epoch from counters at its bounds. Pure.

Every rule that drops a pair is blind to which of its agents ran the candidate.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvtune_api.experiment import Epoch
from kvtune_api.ledger import Figures, Row
from kvtune_api.wire import Counters
from kvtune_tuner.assign import Arm
from kvtune_tuner.draft import Draft, sample, wall, window
from kvtune_tuner.leavers import taking_part
from kvtune_tuner.model import Stalls
from kvtune_tuner.needs import half
from kvtune_tuner.quality import AgentEpoch, PairEpoch, QualityLimits, block_drop, pair_drop
from kvtune_tuner.sli import Missing
from kvtune_tuner.ttft import Share, share_under

LATE_WALL_SECONDS = 10.0
"""How long an agent that answers may take to close a window's bound, wall seconds."""


def samples_awaited(draft: Draft, epoch: Epoch) -> str | None:
    """Why the rows cannot be made yet; None when all samples are there or will not come."""
    late = draft.now_s - epoch.measure_to
    for pair in taking_part(draft, epoch):
        for name in (pair.first, pair.second):
            found = sample(draft.seen.samples.get(epoch.measure_to, {}).get(name))
            if not isinstance(found, Missing) or name in epoch.troubled:
                continue
            answers = draft.report(name) is not None
            grace = max(2 * draft.ticks, wall(draft, LATE_WALL_SECONDS) if answers else 0.0)
            if late < grace or (answers and _is_behind(draft, name, epoch)):
                return f"waiting for the counters of {name}: {found.reason}"
    return _profiles_awaited(draft, epoch)


def _profiles_awaited(draft: Draft, epoch: Epoch) -> str | None:
    """Profiles that a guardrail needs may be a little late; the window is never judged later for them."""
    if draft.live.spec.policy_spec.targets.stall is None:
        return None
    if draft.now_s - epoch.measure_to >= max(2 * draft.ticks, wall(draft, LATE_WALL_SECONDS)):
        return None
    found = draft.seen.stalls.get((epoch.measure_from, epoch.measure_to), {})
    agents = [name for pair in taking_part(draft, epoch) for name in (pair.first, pair.second)]
    late = [name for name in agents if isinstance(found.get(name), Missing) and name not in epoch.troubled]
    return f"waiting for the profiles of {late[0]}" if late else None


def _is_behind(draft: Draft, name: str, epoch: Epoch) -> bool:
    """Whether an agent gives samples, but none yet of the window's end: it will; the phase has a deadline."""
    newest = draft.seen.newest.get(name)
    return isinstance(newest, Counters) and newest.at < epoch.measure_to


def epoch_rows(
    draft: Draft, epoch: Epoch, assigned: Mapping[str, Arm], coins: Sequence[bool]
) -> tuple[Row, ...]:
    """One row per pair; a pair that cannot count says why."""
    limits = QualityLimits(min_requests=draft.live.spec.policy_spec.experiment.min_requests)
    rows: list[Row] = []
    left: list[Sequence[PairEpoch]] = []
    for index, pair in enumerate(draft.live.spec.pairs):
        first_is_candidate = assigned[pair.first] is Arm.CANDIDATE
        candidate, control = (pair.first, pair.second) if first_is_candidate else (pair.second, pair.first)
        seen = PairEpoch(candidate=_agent(draft, epoch, candidate), control=_agent(draft, epoch, control))
        out = index in epoch.left_out  # both kept the incumbent: their figures are of no arm
        drop = _troubled(epoch, candidate, control) or _reason(pair_drop([seen], limits))
        if drop is None:
            left.append([seen])
        rows.append(
            Row(
                block=epoch.block,
                attempt=epoch.attempt,
                epoch=epoch.epoch,
                pair=index,
                coin=coins[index],
                start=epoch.measure_from,
                end=epoch.measure_to,
                candidate=None if out else _figures(draft, epoch, seen.candidate),
                control=None if out else _figures(draft, epoch, seen.control),
                dropped=drop,
            )
        )
    common = _reason(block_drop(left, limits)) if left else None
    return tuple(row if common is None or row.dropped else replace(row, dropped=common) for row in rows)


def _reason(drop: Missing | None) -> str | None:
    return None if drop is None else str(drop.reason)


def _troubled(epoch: Epoch, *agents: str) -> str | None:
    """The trouble of a pair: of its first agent in name order, so that arms cannot matter."""
    return next((epoch.troubled[name] for name in sorted(agents) if name in epoch.troubled), None)


def _agent(draft: Draft, epoch: Epoch, name: str) -> AgentEpoch:
    middle = half(epoch.measure_from, epoch.measure_to)
    halves = (
        window(draft, name, epoch.measure_from, middle),
        window(draft, name, middle, epoch.measure_to),
    )
    known = not any(isinstance(part, Missing) for part in halves)
    return AgentEpoch(
        agent=name,
        counts=window(draft, name, epoch.measure_from, epoch.measure_to),
        expected_generation=epoch.generation,
        generation=None if name in epoch.troubled else epoch.generation,
        halves=halves if known else None,
    )


def _figures(draft: Draft, epoch: Epoch, agent: AgentEpoch) -> Figures | None:
    """A row's figures; None where the window is missing or lacks what the objective needs."""
    counts = agent.counts
    if isinstance(counts, Missing) or counts.requests is None:
        return None
    if counts.prompt_tokens is None or counts.hit_tokens is None:
        return None
    target = draft.live.spec.policy_spec.targets.ttft
    found = share_under(counts, target.limit.seconds) if target else None
    share = found if isinstance(found, Share) and found.boundary_s is not None else None
    stalls = _stalls(draft, epoch, agent.agent)
    return Figures(
        requests=counts.requests,
        prompt_tokens=counts.prompt_tokens,
        hit_tokens=counts.hit_tokens,
        passes=counts.eviction_passes,
        bytes_down=counts.bytes_down,
        within=share.within if share else None,
        timed=share.total if share else None,
        roots=counts.new_session_roots,
        load=stalls.load if stalls else None,
        store=stalls.store if stalls else None,
        evict=stalls.evict if stalls else None,
        samples=stalls.total if stalls else None,
    )


def _stalls(draft: Draft, epoch: Epoch, name: str) -> Stalls | None:
    """Profile samples of the window; None without any, or where they make no sense."""
    found = draft.seen.stalls.get((epoch.measure_from, epoch.measure_to), {}).get(name)
    if not isinstance(found, Stalls):
        return None
    parts = (found.load, found.store, found.evict)
    sound = all(math.isfinite(part) and part >= 0.0 for part in (*parts, found.total))
    return found if sound and found.total > 0.0 and math.fsum(parts) <= found.total * 1.001 else None
