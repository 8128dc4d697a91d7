"""Split a cache over device, host and disk: what each tier hits, what it costs, what it saves.

Every tier holds what the one above it holds (inclusive: engines write blocks through), so the largest tier
decides what is hit at all and the others from where. The device is the engine's plain LRU. Tiers below it run
the policy; where they hit less than the device alone, the device's hits count. With LRU everywhere this is
exact; with another policy below it is a lower bound, as a prefix that lies partly here, partly there is not
counted. So the split that is chosen is simulated once more as it is, tier by tier (`simulated`).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kvtune_cache.requests import Requests
from kvtune_lab.capacity.curves import Curves, PolicyCurve
from kvtune_lab.capacity.prices import Terms, Tier
from kvtune_lab.capacity.tiered import tier_rates
from kvtune_lab.setups import Policy

MULTIPLES = (1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Sizes of tiers below the device, as multiples of it; the rules of thumb (2 and 3) are among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One way to build the cache: sizes in blocks, 0 for none; shares of the last half's prompt tokens."""

    policy: Policy
    """Below the device."""

    device_blocks: int
    host_blocks: int
    disk_blocks: int
    device_hit_rate: float
    host_hit_rate: float
    disk_hit_rate: float
    monthly_cost: float
    """Of what is below the device."""

    prefill_saved: float
    """Share of the prefill time that hits save, loading from lower tiers subtracted."""

    @property
    def hit_rate(self) -> float:
        """Hits in any tier."""
        return self.device_hit_rate + self.host_hit_rate + self.disk_hit_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What is fixed of a plan: the device, the bytes of a token and of a block, and the terms."""

    device_blocks: int
    bytes_per_token: int
    bytes_per_block: int
    terms: Terms


def sizes_below(device_blocks: int, distinct_blocks: int) -> list[int]:
    """Sizes worth a look for one tier below the device: up to the first that holds the whole trace."""
    sizes = []
    for multiple in MULTIPLES:
        if device_blocks >= distinct_blocks:
            break
        sizes.append(min(round(device_blocks * multiple), distinct_blocks))
        if sizes[-1] >= distinct_blocks:
            break
    return sorted(set(sizes))


def splits(curves: Curves, layout: Layout) -> list[Split]:
    """Every split of every policy but OPT, the device alone first."""
    sizes = sizes_below(layout.device_blocks, curves.lru.distinct_blocks)
    found = []
    for curve in curves.policies:
        if curve.policy is not Policy.OPT:
            rate = rate_at(curves, curve)
            found += [_split(curve.policy, curves, rate, layout, *pair) for pair in _pairs(sizes)]
    return found


def rate_at(curves: Curves, curve: PolicyCurve) -> Callable[[int], float]:
    """A policy's rate at any capacity: exact for LRU, else its gap to LRU between the measured capacities.

    It never leaves what was measured at the capacities on both sides.
    """
    if curve.policy is Policy.LRU:
        return curves.lru.rate
    gaps = [rate - curves.lru.rate(at) for rate, at in zip(curve.rates, curves.capacities, strict=True)]

    def rate(capacity: int) -> float:
        above = bisect_left(curves.capacities, capacity)
        sides = curve.rates[max(0, above - 1) : above + 1]
        inside = 0 < above < len(gaps)
        low, high = (min(sides), max(sides)) if inside else (0.0, 1.0)
        gap = float(np.interp(np.log(max(1, capacity)), np.log(curves.capacities), gaps))
        return min(high, max(low, curves.lru.rate(capacity) + gap))

    return rate


def simulated(split: Split, requests: Requests, layout: Layout) -> Split:
    """The same split with the rates of its tiers as they are when all of them are simulated together."""
    rates = tier_rates(
        requests,
        split.policy,
        device_blocks=split.device_blocks,
        host_blocks=split.host_blocks,
        disk_blocks=split.disk_blocks,
    )
    hits = {Tier.DEVICE: rates.device, Tier.HOST: rates.host, Tier.DISK: rates.disk}
    return replace(
        split,
        device_hit_rate=rates.device,
        host_hit_rate=rates.host,
        disk_hit_rate=rates.disk,
        prefill_saved=_saved(hits, layout),
    )


def _saved(hits: Mapping[Tier, float], layout: Layout) -> float:
    """The share of the prefill time that hits save."""
    worth = layout.terms.worth
    return sum(hit * worth(tier, bytes_per_token=layout.bytes_per_token) for tier, hit in hits.items())


def _pairs(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Host and disk: either, both where the disk is larger, or neither."""
    for host in (0, *sizes):
        for disk in (0, *(size for size in sizes if size > host)):
            yield host, disk


def _split(
    policy: Policy, curves: Curves, rate: Callable[[int], float], layout: Layout, host: int, disk: int
) -> Split:
    device_hits = curves.lru.rate(layout.device_blocks)
    with_host = max(device_hits, rate(host)) if host else device_hits
    with_disk = max(with_host, rate(disk)) if disk else with_host
    hits = {Tier.DEVICE: device_hits, Tier.HOST: with_host - device_hits, Tier.DISK: with_disk - with_host}
    below = {Tier.HOST: host * layout.bytes_per_block, Tier.DISK: disk * layout.bytes_per_block}
    return Split(
        policy=policy,
        device_blocks=layout.device_blocks,
        host_blocks=host,
        disk_blocks=disk,
        device_hit_rate=device_hits,
        host_hit_rate=hits[Tier.HOST],
        disk_hit_rate=hits[Tier.DISK],
        monthly_cost=layout.terms.monthly(below),
        prefill_saved=_saved(hits, layout),
    )
