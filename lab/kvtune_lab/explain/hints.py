"""Let clients of a trace give hints that are right so often, to see what a policy makes of them.

What is true is read from the trace: the session of a request returns when one of its last two blocks is
touched again (the very last may have been partial, so that its successor begins beside it), and else is over.
A right hint says this: in how many seconds it returns, or that it is over. A wrong one says the contrary; how
soon is then drawn from the returns of the trace.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvtune_cache.requests import Requests
from kvtune_lab.capacity.curves import Progress
from kvtune_lab.setups import Policy, Setup
from kvtune_lab.simulate import Simulator, Way

IS_OVER: Final = -1.0
"""A hint below 0, as `kvtune_cache.signals.HINT` has it."""

LEAST_SECONDS: Final = 1e-3
"""A session that returns in the same tick of the trace's clock is said to return so soon: 0 says nothing."""

SEED: Final = 1

PLAIN_REFERENCES: Final = 400_000
"""On lists ReuseAware takes some 30 us a reference: more of them are served sooner by the compiled one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returns:
    """When the session of each request returns."""

    seconds: NDArray[np.float64]
    """Above 0; infinite for one that is over."""


def returns_of(requests: Requests) -> Returns:
    """Read from a trace which sessions return, and when."""
    starts, blocks = np.asarray(requests.starts), np.asarray(requests.blocks)
    times, count = np.asarray(requests.times, np.float64), len(requests.starts) - 1
    ends = np.append(times, np.inf)
    wanted = np.full(int(blocks.max(initial=-1)) + 1, count, np.int32)
    seconds = np.empty(count)
    for r in range(count - 1, -1, -1):
        mine = blocks[starts[r] : starts[r + 1]]
        seconds[r] = ends[wanted[mine[-2:]].min()] - times[r]
        wanted[mine] = r
    return Returns(seconds=np.maximum(seconds, LEAST_SECONDS))


def hints(returns: Returns, accuracy: float, seed: int = SEED) -> NDArray[np.float64]:
    """Draw a hint of each request that is right with probability `accuracy`.

    Where no session ever returns, a wrong hint says nothing (0). Raises ValueError for an accuracy outside
    [0.5, 1].
    """
    if not 0.5 <= accuracy <= 1:
        raise ValueError(f"hint accuracy: {accuracy} is not within [0.5, 1]")
    rng = np.random.default_rng(seed)
    right = rng.random(len(returns.seconds)) < accuracy
    back = np.isfinite(returns.seconds)
    known = returns.seconds[back]
    drawn = rng.choice(known, len(back)) if len(known) else np.zeros(len(back))
    truth = np.where(back, returns.seconds, IS_OVER)
    return np.where(right, truth, np.where(back, IS_OVER, drawn))


def hinted_rates(
    requests: Requests,
    capacities: Sequence[int],
    accuracies: Sequence[float],
    *,
    progress: Progress = lambda _done, _of: None,
) -> dict[float, list[float]]:
    """Simulate ReuseAware with hints of each accuracy: its hit rates of tokens in the last half."""
    returns, of = returns_of(requests), len(capacities) * len(accuracies)
    way = Way.PLAIN if len(requests.blocks) * of <= PLAIN_REFERENCES else Way.COMPILED
    found: dict[float, list[float]] = {accuracy: [] for accuracy in accuracies}
    for accuracy, rates in found.items():
        told: Any = hints(returns, accuracy)
        for rate in _rates(requests._replace(hints=told), capacities, way):
            rates.append(rate)
            progress(sum(map(len, found.values())), of)
    return found


def _rates(requests: Requests, capacities: Sequence[int], way: Way) -> Iterator[float]:
    """The simulator is gone before the next one is made: each holds as much as the trace."""
    simulator = Simulator(requests, way)
    for capacity in capacities:
        done = simulator.simulate(Setup(policy=Policy.REUSE_AWARE, capacity_blocks=capacity))
        yield done.token_hit_rate_last_half
