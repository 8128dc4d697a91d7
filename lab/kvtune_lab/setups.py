"""What can be simulated on a trace: one setup of a cache, or the grid of all that a sweep asks for.

Called by `kvtune simulate`, `kvtune sweep` and the planner. Values alone; simulate.py runs them.

Errors: SetupError (a ValueError) names the field, its value and its limit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Any

from kvtune_cache.eviction.names import NUMBERS
from kvtune_cache.rules import pass_blocks

MOST_ASKED = 255
"""A store threshold is at most this: how often a block was asked for is counted in 8 bits."""


class SetupError(ValueError):
    """Tell the user what is wrong with a setup."""


class Policy(StrEnum):
    """What can be simulated: the policies of the cache, by name, and the best with all requests known."""

    LRU = "LRU"
    FIFO = "FIFO"
    S3FIFO = "S3FIFO"
    SIEVE = "SIEVE"
    ARC = "ARC"
    TOKEN_LRU = "TokenLRU"
    WORKLOAD_AWARE = "WorkloadAware"
    REUSE_AWARE = "ReuseAware"
    OPT = "OPT"

    @property
    def number(self) -> int:
        """The number by which the cache knows it; KeyError for OPT, which is none of the cache."""
        return NUMBERS[self.value]


class Order(StrEnum):
    """How the blocks of a request are touched."""

    TAIL = "tail"
    """Tail first, and pinned while the request is served, as vLLM does."""

    FORWARD = "forward"
    """Head first and not pinned, as simulators of single blocks do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """One cache to simulate. None is off: blocks stay however long they idle, and leave one by one.

    Raises SetupError for a value out of its limits, and for OPT with anything but a capacity.
    """

    policy: Policy
    capacity_blocks: int
    ttl_seconds: float | None = None
    eviction_ratio: float | None = None
    store_threshold: int = 1
    order: Order = Order.TAIL

    def __post_init__(self) -> None:
        """Refuse what no cache can run."""
        if self.capacity_blocks < 1:
            raise SetupError(f"capacity: {self.capacity_blocks} is less than 1 block")
        if self.ttl_seconds is not None and not 0 < self.ttl_seconds < float("inf"):
            raise SetupError(f"ttl: {self.ttl_seconds} s is not a length of time above 0")
        if self.eviction_ratio is not None and not 0 < self.eviction_ratio <= 1:
            raise SetupError(f"eviction-ratio: {self.eviction_ratio} is not within (0, 1]")
        if not 1 <= self.store_threshold <= MOST_ASKED:
            raise SetupError(f"store-threshold: {self.store_threshold} is not from 1 to {MOST_ASKED}")
        if self.policy is Policy.OPT:
            self._refuse_beside_opt()

    def _refuse_beside_opt(self) -> None:
        if self.order is not Order.TAIL:
            raise SetupError(f"order: {self.order}: OPT takes no --order")
        if self.ttl_seconds is not None:
            raise SetupError(f"ttl: {self.ttl_seconds:g} s: OPT takes no --ttl")
        if self.eviction_ratio is not None:
            raise SetupError(f"eviction-ratio: {self.eviction_ratio}: OPT takes no --eviction-ratio")
        if self.store_threshold > 1:
            raise SetupError(f"store-threshold: {self.store_threshold}: OPT takes no --store-threshold")

    @property
    def pass_blocks(self) -> int:
        """Blocks that one eviction pass frees; 0: one by one, no passes."""
        if self.eviction_ratio is None:
            return 0
        return pass_blocks(self.eviction_ratio, self.capacity_blocks)


def setup_from(data: Mapping[str, Any]) -> Setup:
    """Read a setup back from its `asdict`; raises SetupError, KeyError, TypeError or ValueError."""
    return Setup(
        policy=Policy(data["policy"]),
        capacity_blocks=data["capacity_blocks"],
        ttl_seconds=data["ttl_seconds"],
        eviction_ratio=data["eviction_ratio"],
        store_threshold=data["store_threshold"],
        order=Order(data["order"]),
    )


def ttl_text(seconds: float | None) -> str:
    """A TTL for a person."""
    return "none" if seconds is None else f"{seconds:g} s"


def variant_text(setup: Setup) -> str:
    """What sets a cache apart beside its policy and capacity; empty for none of it."""
    parts = []
    if setup.ttl_seconds is not None:
        parts.append(f"TTL {ttl_text(setup.ttl_seconds)}")
    if setup.eviction_ratio is not None:
        parts.append(f"ratio {setup.eviction_ratio:g}")
    if setup.store_threshold > 1:
        parts.append(f"stored from {setup.store_threshold} asked")
    return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """All choices of a sweep; `setups` are their product."""

    policies: Sequence[Policy]
    capacities_blocks: Sequence[int]
    ttls_seconds: Sequence[float | None] = (None,)
    eviction_ratios: Sequence[float | None] = (None,)
    store_thresholds: Sequence[int] = (1,)
    order: Order = Order.TAIL

    def setups(self) -> list[Setup]:
        """Each setup once, by policy, then the others as they come; OPT for each capacity alone.

        Raises SetupError.
        """
        found: dict[Setup, None] = {}
        for policy in self.policies:
            for chosen in product(
                self.ttls_seconds, self.eviction_ratios, self.store_thresholds, self.capacities_blocks
            ):
                found.setdefault(self._setup(policy, *chosen))
        return list(found)

    def _setup(
        self, policy: Policy, ttl: float | None, ratio: float | None, threshold: int, capacity: int
    ) -> Setup:
        if policy is Policy.OPT:
            return Setup(policy=policy, capacity_blocks=capacity)
        return Setup(
            policy=policy,
            capacity_blocks=capacity,
            ttl_seconds=ttl,
            eviction_ratio=ratio,
            store_threshold=threshold,
            order=self.order,
        )
