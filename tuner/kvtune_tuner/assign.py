"""Match agents into pairs and toss each pair's coin: agents -> matched pairs -> arms.

Called by plan, and again after a restart or by replay: the same (seed, block, pair) gives the same arms on
every machine and Python version, so a crash never assigns an epoch twice in two ways. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kvtune_tuner.sli import Missing

NEIGHBOURS = 16
"""An agent is compared with this many next ones in the order of load."""

RATE_FLOOR_PER_S = 0.01
"""Added to request rates, so that idle agents can be compared too."""

HIT_RATE_WEIGHT = 4.0
"""A hit rate 2.5 points apart weighs as much as a load 10 % apart."""

UNKNOWN_HIT_RATE = 1.0
"""Distance added when just one of two hit rates is known."""


class Arm(StrEnum):
    """Name what an agent runs in an epoch."""

    CANDIDATE = "candidate"
    CONTROL = "control"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLoad:
    """Hold an agent's recent load: requests per second, and its hit rate in [0, 1] if known."""

    name: str
    request_rate: float
    hit_rate: float | Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Hold two agents matched by load; first < second by name. distance 0 is a perfect match."""

    first: str
    second: str
    distance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Hold all pairs, best matched first, and the odd one out, which stays on the incumbent."""

    pairs: tuple[Pair, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TooFewAgents:
    """Say that no pair can be formed."""

    agents: int
    message: str
    reason: str = "TooFewAgents"


def match_pairs(agents: Sequence[AgentLoad]) -> Pairing | TooFewAgents:
    """Return the pairs of agents with like load and hit rate, the best match first.

    Greedy over the distances to the next agents in the order of load, repeated over those left: 1,000 agents
    take some hundredths of a second. The order of the input does not matter. Raises ValueError for a name
    given twice or a figure that is not a number in range."""
    for agent in agents:
        _check(agent)
    if len({agent.name for agent in agents}) < len(agents):
        raise ValueError(f"agents: a name occurs twice in {sorted(agent.name for agent in agents)}")
    if len(agents) < 2:
        return TooFewAgents(agents=len(agents), message=f"{len(agents)} agents are fewer than 2, one pair")
    left = sorted(agents, key=lambda agent: (agent.request_rate, _known(agent.hit_rate), agent.name))
    pairs: list[Pair] = []
    while len(left) >= 2:
        matched = _greedy(left)
        taken = {name for pair in matched for name in (pair.first, pair.second)}
        pairs += matched
        left = [agent for agent in left if agent.name not in taken]
    pairs.sort(key=lambda pair: (pair.distance, pair.first))
    return Pairing(pairs=tuple(pairs), left_out=tuple(agent.name for agent in left))


def _check(agent: AgentLoad) -> None:
    if not (math.isfinite(agent.request_rate) and agent.request_rate >= 0.0):
        raise ValueError(f"{agent.name}.request_rate: {agent.request_rate} is not a number of at least 0")
    if not isinstance(agent.hit_rate, Missing) and not 0.0 <= agent.hit_rate <= 1.0:
        raise ValueError(f"{agent.name}.hit_rate: {agent.hit_rate} is not between 0 and 1")


def _greedy(agents: Sequence[AgentLoad]) -> list[Pair]:
    """Return disjoint pairs, taking the nearest first; agents are in the order of load."""
    options = [
        _pair(agent, other)
        for place, agent in enumerate(agents)
        for other in agents[place + 1 : place + 1 + NEIGHBOURS]
    ]
    options.sort(key=lambda pair: (pair.distance, pair.first, pair.second))
    taken: set[str] = set()
    chosen: list[Pair] = []
    for pair in options:
        if pair.first not in taken and pair.second not in taken:
            taken |= {pair.first, pair.second}
            chosen.append(pair)
    return chosen


def _pair(a: AgentLoad, b: AgentLoad) -> Pair:
    load = abs(math.log((a.request_rate + RATE_FLOOR_PER_S) / (b.request_rate + RATE_FLOOR_PER_S)))
    first, second = sorted((a.name, b.name))
    return Pair(first=first, second=second, distance=load + _hit_rate_distance(a.hit_rate, b.hit_rate))


def _hit_rate_distance(a: float | Missing, b: float | Missing) -> float:
    if isinstance(a, Missing) and isinstance(b, Missing):
        return 0.0
    if isinstance(a, Missing) or isinstance(b, Missing):
        return UNKNOWN_HIT_RATE
    return HIT_RATE_WEIGHT * abs(a - b)


def _known(hit_rate: float | Missing) -> float:
    return -1.0 if isinstance(hit_rate, Missing) else hit_rate


def choose_pairs(pairs: Iterable[Pair], pairs_at_once: int) -> tuple[Pair, ...]:
    """Return the best matched pairs, at most pairs_at_once. Raises ValueError below 1."""
    if pairs_at_once < 1:
        raise ValueError(f"pairsAtOnce: {pairs_at_once} is less than 1")
    return tuple(sorted(pairs, key=lambda pair: (pair.distance, pair.first))[:pairs_at_once])


def experiment_seed(policy_uid: str, number: int) -> int:
    """Return the seed of an experiment's coins: the same for the same policy and number, in 48 bits."""
    return int.from_bytes(hashlib.sha256(f"{policy_uid}:{number}".encode()).digest()[:6], "big")


def coin(seed: int, *, block: int, pair_index: int, attempt: int = 0) -> bool:
    """Return the coin of one pair in one block; True: its second agent runs the candidate in epoch 1.

    The lowest bit of SHA-256 over "kvtune-coin:seed:block:attempt:pair". attempt grows when a block is
    repeated."""
    text = f"kvtune-coin:{seed}:{block}:{attempt}:{pair_index}"
    return bool(hashlib.sha256(text.encode()).digest()[-1] & 1)


def arms(
    seed: int, *, block: int, epoch: int, pairs: Sequence[tuple[str, str]], attempt: int = 0
) -> dict[str, Arm]:
    """Return each agent's arm in epoch 1 or 2 of a block; the arms of every pair swap between the epochs.

    The index of a pair in `pairs` is part of its coin, so the order must be the recorded one. Raises
    ValueError for another epoch or for an agent in two pairs."""
    if epoch not in (1, 2):
        raise ValueError(f"epoch: {epoch} is not 1 or 2")
    assigned: dict[str, Arm] = {}
    for index, (first, second) in enumerate(pairs):
        second_is_candidate = coin(seed, block=block, pair_index=index, attempt=attempt) == (epoch == 1)
        candidate, control = (second, first) if second_is_candidate else (first, second)
        if candidate in assigned or control in assigned or candidate == control:
            raise ValueError(f"pairs: an agent of pair {index} ({first}, {second}) occurs twice")
        assigned |= {candidate: Arm.CANDIDATE, control: Arm.CONTROL}
    return assigned


def pairing_hash(pairs: Iterable[tuple[str, str]]) -> str:
    """Return 16 hex digits that change exactly when an agent gets another partner; order does not matter."""
    text = "\n".join(sorted("\t".join(sorted(pair)) for pair in pairs))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
