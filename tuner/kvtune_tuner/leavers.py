"""Say which agents are gone or about to go, and what that means for the pairs of an experiment. Pure.

Nothing here knows or asks which arm an agent is in: a pair whose agent leaves ends for both.
"""

from kvtune_api.experiment import Epoch
from kvtune_api.names import Reason
from kvtune_api.status import Pair
from kvtune_tuner.draft import Draft
from kvtune_tuner.model import Departure

AGENT_LEFT = str(Reason.AGENT_LEFT)


def is_out(draft: Draft, name: str) -> bool:
    """Whether an agent is gone, about to go, or not ready: its windows would not count."""
    return name not in draft.present or name in draft.seen.pool.leaving


def is_going(draft: Draft, name: str) -> bool:
    """Whether an agent is about to go for a reason of the cluster's: silence is then nobody's fault.

    One that is merely not ready may be so because of what it runs, so guards go on looking at it.
    """
    leaving = draft.seen.pool.leaving.get(name)
    return leaving is not None and leaving.kind is not Departure.NOT_READY


def staying(draft: Draft) -> tuple[str, ...]:
    """Names of the agents that answer and are not about to leave, sorted."""
    leaving = draft.seen.pool.leaving
    return tuple(name for name in draft.names if name not in leaving)


def replaced(draft: Draft) -> tuple[str, ...]:
    """Agents that a rollout is about to replace."""
    leaving = draft.seen.pool.leaving
    return tuple(name for name in sorted(leaving) if leaving[name].kind is Departure.ROLLOUT)


def left_out(draft: Draft) -> tuple[int, ...]:
    """Pairs that take no part in an epoch that begins now: both agents keep the incumbent."""
    return tuple(
        index
        for index, pair in enumerate(draft.live.spec.pairs)
        if is_out(draft, pair.first) or is_out(draft, pair.second)
    )


def troubled_by_leaving(draft: Draft) -> dict[str, str]:
    """Agents of the experiment that are out now, with the reason that the ledger gets."""
    agents = (name for pair in draft.live.spec.pairs for name in (pair.first, pair.second))
    return {name: AGENT_LEFT for name in agents if is_out(draft, name)}


def taking_part(draft: Draft, epoch: Epoch) -> tuple[Pair, ...]:
    """The pairs of an epoch that were not left out at its start."""
    return tuple(pair for i, pair in enumerate(draft.live.spec.pairs) if i not in epoch.left_out)


def all_gone(draft: Draft, known: Epoch) -> str | None:
    """Why no pair can ever count again; None while one can.

    Agents count as gone when they were away in the tick before, too (`known` is the epoch as it stood then):
    a pod's name may come back at once.
    """
    lost = []
    for pair in draft.live.spec.pairs:
        gone = [n for n in (pair.first, pair.second) if n not in draft.present and n in known.troubled]
        if not gone:
            return None
        lost.append(gone[0])
    more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
    return f"every pair has lost an agent for good: {', '.join(lost[:3])}{more} are gone"
