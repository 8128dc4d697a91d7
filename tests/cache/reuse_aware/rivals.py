"""The pairs of stream and capacity on which ReuseAware is measured against LRU, hard ones by choice.

Called by the tests, which take the quick ones, and by the benchmark of robustness, which takes all. The
capacities are those at which LRU hits a share of what it ever hits, beginning with the largest request:
there a wrong guess costs most.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from kvtune_cache.requests import Requests
from tests.cache.reuse_aware.adversaries import (
    Chance,
    Traffic,
    after,
    between,
    fixed,
    heavy,
    loop,
    mixed,
    popular,
    sessions_of,
    spread,
)

Make: TypeAlias = Callable[[], Requests]


def always(chance: float) -> Chance:
    """Return with this chance, whatever the time and style."""
    return lambda passed, style: chance


def by_style(*chances: float) -> Chance:
    """Return with a chance of the session's style."""
    return lambda passed, style: chances[style]


def taking_turns(times: int) -> Chance:
    """Swap the styles that return this many times."""

    def chance(passed: float, style: int) -> float:
        return 0.8 if style == (0 if int(passed * times) % 2 else 2) else 0.05

    return chance


def _sessions(chance: float, median: float, requests: int, seed: int) -> Requests:
    traffic = Traffic(chance=always(chance), pause=spread(median, 0.6), requests=requests)
    return sessions_of(traffic, seed)


ALIKE: Final[dict[str, Traffic]] = {
    "return with .2 after 20 s": Traffic(chance=always(0.2)),
    "return with .5 after 5 s": Traffic(pause=spread(5.0, 0.6)),
    "return with .5 after 20 s": Traffic(),
    "return with .5 after 120 s": Traffic(pause=spread(120.0, 0.6)),
    "return with .8 after 20 s": Traffic(chance=always(0.8)),
    "return after 30 s sharp": Traffic(pause=fixed(30.0)),
    "return after up to 120 s": Traffic(pause=between(1, 120)),
    "return by an exponential law": Traffic(pause=lambda rng: rng.expovariate(1 / 40)),
    "return by a Pareto law": Traffic(pause=heavy(3.0, 0.7, 5000.0)),
    "return over decades of seconds": Traffic(pause=spread(60.0, 1.6)),
    "requests of few blocks": Traffic(growth=fixed(1.0)),
    "long documents": Traffic(growth=spread(60.0, 1.0), requests=2000),
    "shared prefixes": Traffic(heads=200, head_blocks=6),
    "returns that fork": Traffic(forks=0.4),
    "bursts": Traffic(burst=8.0),
    "a hundred requests a second": Traffic(chance=always(0.6), per_second=100.0, pause=spread(2.0, 0.5)),
}
"""Sessions whose class says nothing about their return."""

TOLD_APART: Final[dict[str, Traffic]] = {
    "by style": Traffic(chance=by_style(0.1, 0.4, 0.7)),
    "styles swap once": Traffic(chance=taking_turns(2)),
    "styles swap eight times": Traffic(chance=taking_turns(8)),
    "styles drift": Traffic(chance=lambda passed, style: 0.85 * (passed if style else 1 - passed)),
    "none returns": Traffic(chance=always(0.0)),
    "prefixes return, sessions do not": Traffic(chance=always(0.0), heads=1500, head_blocks=5),
}

OTHERS: Final[dict[str, Make]] = {
    "a loop": lambda: loop(30, jitter=5.0),
    "Zipf .6": lambda: popular(32, documents=3000, power=0.6),
    "Zipf 1.0": lambda: popular(32, documents=3000, power=1.0),
    "Zipf 1.0, moving on": lambda: popular(33, documents=3000, power=1.0, shift=0.3),
    "sessions over a loop": lambda: mixed(
        _sessions(0.6, 20.0, 8000, 40), loop(41, documents=150, rounds=50, jitter=3.0)
    ),
    "sessions over Zipf .9": lambda: mixed(
        _sessions(0.7, 20.0, 5000, 42), popular(43, documents=2000, power=0.9, requests=5000)
    ),
    "sessions, then a loop": lambda: after(
        _sessions(0.6, 20.0, 5000, 44), loop(45, documents=200, jitter=3.0)
    ),
    "a loop, then sessions": lambda: after(
        loop(45, documents=200, jitter=3.0), _sessions(0.6, 20.0, 5000, 44)
    ),
    "returns slow down": lambda: after(_sessions(0.6, 10.0, 4000, 46), _sessions(0.6, 300.0, 5000, 47)),
    "returns speed up": lambda: after(_sessions(0.6, 600.0, 4000, 46), _sessions(0.6, 10.0, 5000, 47)),
    "returns die": lambda: after(_sessions(0.9, 20.0, 4000, 48), _sessions(0.3, 20.0, 5000, 49)),
    "returns revive": lambda: after(_sessions(0.05, 20.0, 4000, 48), _sessions(0.85, 20.0, 5000, 49)),
}


def _made(traffic: Traffic) -> Make:
    return lambda: sessions_of(traffic, 11)


STREAMS: Final[dict[str, Make]] = {
    **{name: _made(traffic) for name, traffic in ALIKE.items()},
    **{name: _made(traffic) for name, traffic in TOLD_APART.items()},
    **OTHERS,
}
"""All streams, by what they are."""


def longest(requests: Requests) -> int:
    """The blocks of the largest request."""
    return max(stop - start for start, stop in pairwise(requests.starts))


def capacities(requests: Requests, shares: Sequence[float], lru: Callable[[int], float]) -> list[int]:
    """The least capacity that the rule speaks of, and those at which LRU hits these shares of its most."""
    distinct = int(max(requests.blocks)) + 1
    least = max(longest(requests), distinct // 500 + 1)
    steps = sorted({round(least * (0.9 * distinct / least) ** (i / 12)) for i in range(13)})
    rates = [lru(step) for step in steps]
    found = [next(s for s, rate in zip(steps, rates, strict=True) if rate >= q * rates[-1]) for q in shares]
    return sorted({least, *found})
