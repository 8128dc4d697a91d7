"""Streams on which it is hard to be no worse than LRU, made by rule and seed.

Called by the tests and by the benchmark of robustness. Sessions that come back by chance, whatever their
class says; loops and scans; shared prefixes; drifts, flips and bursts; short and long requests.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TypeAlias

from kvtune_cache.requests import Requests

Draw: TypeAlias = Callable[[random.Random], float]
Chance: TypeAlias = Callable[[float, int], float]
"""Chance to return, by the share of the stream that has passed and the session's style."""

STYLES = (20, 200, 500)
"""Tokens of an answer, by style."""


def spread(median: float, sigma: float) -> Draw:
    """Draw by a lognormal distribution."""
    return lambda rng: median * rng.lognormvariate(0.0, sigma)


def fixed(value: float) -> Draw:
    """Draw the same every time."""
    return lambda rng: value


def between(least: int, most: int) -> Draw:
    """Draw whole numbers, all alike."""
    return lambda rng: rng.randint(least, most)


def heavy(least: float, power: float, most: float) -> Draw:
    """Draw by a Pareto distribution that is cut off."""
    return lambda rng: min(most, least * rng.paretovariate(power))


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Sessions: how often and when they return, by how many blocks they grow, what they begin with."""

    requests: int = 8000
    per_second: float = 2.0
    chance: Chance = lambda passed, style: 0.5
    pause: Draw = field(default_factory=lambda: spread(20.0, 0.6))
    growth: Draw = field(default_factory=lambda: between(2, 11))
    heads: int = 0
    """Prefixes that sessions share; number k is drawn in proportion to 1 / (k + 1)."""

    head_blocks: int = 4
    burst: float = 1.0
    """How much faster requests come in every second minute."""

    forks: float = 0.0
    """Share of returns that go on from half of what there was."""


def sessions_of(traffic: Traffic, seed: int) -> Requests:
    """Draw the requests of sessions."""
    rng = random.Random(seed)
    weights = [1 / (k + 1) for k in range(traffic.heads)]
    fresh = traffic.heads * traffic.head_blocks
    now, made = 0.0, Made()
    waiting: list[tuple[float, int, int, list[int]]] = []
    for number in range(traffic.requests):
        rate = traffic.per_second * (traffic.burst if int(now / 60.0) % 2 else 1.0)
        now += rng.expovariate(rate)
        style, chain = rng.randrange(len(STYLES)), []
        if waiting and waiting[0][0] <= now:
            _, _, style, chain = heappop(waiting)
            if rng.random() < traffic.forks:
                chain = chain[: len(chain) // 2]
        elif traffic.heads:
            first = rng.choices(range(traffic.heads), weights)[0] * traffic.head_blocks
            chain = list(range(first, first + traffic.head_blocks))
        grown = int(traffic.growth(rng))
        chain = [*chain, *range(fresh, fresh + grown)]
        fresh += grown
        made.ask(now, chain, STYLES[style])
        if rng.random() < traffic.chance(number / traffic.requests, style):
            heappush(waiting, (now + traffic.pause(rng), number, style, chain))
    return made.requests()


class Made:
    """Requests as they are made."""

    def __init__(self) -> None:
        """Start with none."""
        self._asked: list[tuple[float, list[int], int]] = []

    def ask(self, now: float, chain: list[int], output: int) -> None:
        """Add a request."""
        self._asked.append((now, chain, output))

    def requests(self) -> Requests:
        """Put them in order of time, blocks numbered as they come."""
        numbers: dict[int, int] = {}
        starts, blocks, times, outputs = [0], [], [], []
        for now, chain, output in sorted(self._asked, key=lambda asked: asked[0]):
            blocks += [numbers.setdefault(x, len(numbers)) for x in chain]
            starts.append(len(blocks))
            times.append(now)
            outputs.append(output)
        return Requests(
            starts, blocks, [1] * len(blocks), times, outputs, [0] * len(times), [0.0] * len(times)
        )


def loop(
    seed: int, *, documents: int = 300, blocks: int = 10, rounds: int = 25, jitter: float = 0.0
) -> Requests:
    """Ask for the same documents round by round, each followed by a question of one block."""
    rng, made = random.Random(seed), Made()
    fresh = documents * blocks
    for r in range(rounds):
        for d in range(documents):
            now = (r * documents + d) * 0.5 + rng.uniform(0.0, jitter)
            made.ask(now, [*range(d * blocks, (d + 1) * blocks), fresh], rng.choice(STYLES))
            fresh += 1
    return made.requests()


def popular(
    seed: int, *, documents: int, power: float, requests: int = 12_000, blocks: int = 4, shift: float = 0.0
) -> Requests:
    """Ask for documents by Zipf's law, whose order moves on by `shift` documents a request."""
    rng, made = random.Random(seed), Made()
    ranks = range(documents)
    weights = [(k + 1) ** -power for k in ranks]
    fresh = documents * blocks
    for r, rank in enumerate(rng.choices(ranks, weights, k=requests)):
        first = (rank + int(shift * r)) % documents * blocks
        tail = list(range(fresh, fresh + rng.randrange(3)))
        fresh += len(tail)
        made.ask(r * 0.5 + rng.random(), [*range(first, first + blocks), *tail], rng.choice(STYLES))
    return made.requests()


def mixed(*streams: Requests) -> Requests:
    """Lay streams over one another, their blocks kept apart."""
    made, base = Made(), 0
    for stream in streams:
        for r, now in enumerate(stream.times):
            start, stop = stream.starts[r], stream.starts[r + 1]
            made.ask(now, [base + x for x in stream.blocks[start:stop]], stream.outputs[r])
        base += max(stream.blocks) + 1
    return made.requests()


def after(first: Requests, second: Requests) -> Requests:
    """Let one stream follow another."""
    late = first.times[-1] + 1.0
    return mixed(first, second._replace(times=[late + now for now in second.times]))
