"""Simulate one split of a cache tier by tier: where each hit is found, and what moves between tiers.

Called by splits.py for the splits that curves have singled out. Runs the tiers of kvtune_cache as they are:
on lists, or compiled on arrays where a trace is large; both give the same. The device is the engine's plain
LRU; the first tier below it is written through, a disk below a host takes in what that lets go; both run the
policy.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kvtune_cache.eviction.names import LRU
from kvtune_cache.requests import Requests
from kvtune_cache.rules import Rules
from kvtune_cache.stack import (
    ON_DEVICE,
    ON_DISK,
    ON_HOST,
    TierRules,
    Tiers,
    caches_for,
    plain_tiers,
    serve_tiers,
)
from kvtune_lab.readers.loaded import as_lists, as_requests
from kvtune_lab.setups import Policy
from kvtune_lab.simulate import Way, way_for

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRates:
    """Shares of the last half's prompt tokens that are hit in each tier."""

    device: float
    host: float
    disk: float


def tier_rates(
    requests: Requests,
    policy: Policy,
    *,
    device_blocks: int,
    host_blocks: int,
    disk_blocks: int,
    way: Way | None = None,
) -> TierRates:
    """Serve all requests from empty tiers, 0 blocks for one that is not there; KeyError for OPT."""
    number = policy.number
    below, last = (host_blocks, disk_blocks) if host_blocks > 0 else (disk_blocks, 0)
    rules = TierRules(Rules(LRU, device_blocks), Rules(number, below), Rules(number, last))
    chosen = way_for(len(requests.blocks)) if way is None else way
    places = _plain(requests, rules) if chosen is Way.PLAIN else _compiled(requests, rules)
    half = int(requests.starts[(len(requests.starts) - 1) // 2])
    tokens = np.bincount(
        places[half:], weights=np.asarray(requests.tokens[half:], np.float64), minlength=ON_DISK + 1
    )
    device, first_below, second = (
        float(tokens[place] / tokens.sum()) for place in (ON_DEVICE, ON_HOST, ON_DISK)
    )
    host, disk = (first_below, second) if host_blocks > 0 else (0.0, first_below)
    return TierRates(device=device, host=host, disk=disk)


def _plain(requests: Requests, rules: TierRules) -> "NDArray[np.uint8]":
    lists, places = as_lists(requests), [0] * len(requests.blocks)
    serve_tiers(plain_tiers(max(lists.blocks) + 1, rules, _longest(requests)), rules, lists, places)
    return np.array(places, np.uint8)


def _compiled(requests: Requests, rules: TierRules) -> "NDArray[np.uint8]":
    """Each tier's lists are gone before the next is made: they take several times the room of its arrays."""
    from kvtune_lab.compiled import as_arrays, compiled

    arrays, places = as_requests(*requests), np.zeros(len(requests.blocks), np.uint8)
    device, host, disk = map(as_arrays, caches_for(int(np.max(arrays.blocks)) + 1, rules))
    held = cast(Any, np.zeros(_longest(requests), np.int32))
    serve = compiled(serve_tiers, policy=rules.host.policy)
    serve(Tiers(device, host, disk, held), rules, arrays, cast(Any, places))
    return places


def _longest(requests: Requests) -> int:
    return int(np.max(np.diff(np.asarray(requests.starts, np.int64))))
