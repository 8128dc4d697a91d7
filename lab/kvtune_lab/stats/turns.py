"""Sessions and turns of requests: as the trace tells them, or inferred from shared prefixes.

Inference: a request goes on with the conversation of the latest request that touched the last block of its
known prefix, where that prefix is longer than what all requests begin with. It is the next turn where the
prefix reaches all of that request but its last block (which may have been partial), else a branch: the same
turn again, as when an answer is asked for anew.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvtune_cache.requests import Requests
from kvtune_lab.readers.loaded import UNKNOWN, Loaded, Whole
from kvtune_lab.stats.reuse import known_prefixes


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversations:
    """Of each request its session, its turn from 1 and whether it branches off; -1 is not known."""

    sessions: Whole
    turns: Whole
    branches: NDArray[np.bool_]
    inferred: bool


def conversations(loaded: Loaded) -> Conversations:
    """Take sessions and turns from the trace, or infer them."""
    if loaded.sessions is None:
        return infer_conversations(loaded.requests, loaded.distinct_blocks)
    turns = loaded.turns if loaded.turns is not None else counted_turns(loaded.sessions)
    return Conversations(
        sessions=loaded.sessions,
        turns=turns,
        branches=np.zeros(len(turns), np.bool_),
        inferred=False,
    )


def counted_turns(sessions: Whole) -> Whole:
    """Number the requests of each session from 1; of no session: not known."""
    counts: dict[int, int] = {}
    turns = np.full(len(sessions), UNKNOWN, np.int32)
    for r, session in enumerate(sessions.tolist()):
        if session != UNKNOWN:
            counts[session] = turns[r] = counts.get(session, 0) + 1
    return turns


def infer_conversations(requests: Requests, distinct_blocks: int) -> Conversations:
    """Infer the conversation of each request from what its prefix shares with earlier ones."""
    starts, blocks = np.asarray(requests.starts), np.asarray(requests.blocks)
    lengths, found = np.diff(starts), known_prefixes(requests)
    shared = _shared_by_all(starts, blocks)
    count = len(lengths)
    owner = np.full(distinct_blocks, UNKNOWN, np.int32)
    sessions, turns = np.zeros(count, np.int32), np.ones(count, np.int32)
    branches = np.zeros(count, np.bool_)
    begun = 0
    for r in range(count):
        known = int(found[r])
        if known > shared:
            before = owner[blocks[starts[r] + known - 1]]
            branches[r] = known < lengths[before] - 1
            turns[r] = turns[before] + (not branches[r])
            sessions[r] = sessions[before]
        else:
            sessions[r] = begun
            begun += 1
        owner[blocks[starts[r] : starts[r + 1]]] = r
    return Conversations(sessions=sessions, turns=turns, branches=branches, inferred=True)


def _shared_by_all(starts: NDArray[np.int64], blocks: Whole) -> int:
    """How many blocks every request begins with."""
    shortest = int(np.diff(starts).min())
    for at in range(shortest):
        heads = blocks[starts[:-1] + at]
        if np.any(heads != heads[0]):
            return at
    return shortest
