"""The best static configuration for the demo's own traffic, searched offline on the same requests."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product, takewhile

from kvtune_api.knobs import CacheConfig, EvictionPolicy, Knob, config, number_of
from kvtune_api.policy import KVCachePolicy
from kvtune_api.policy_knobs import Knobs
from kvtune_cache.constants import PRESETS
from kvtune_cache.tiers import CacheSettings
from kvtune_cli.demo.fleet import PRESET, TRACE_PRESET
from kvtune_cli.demo.options import PREFILL_SECONDS, WORKLOAD, DemoOptions
from kvtune_lab.generator import generate
from kvtune_lab.grid import Bounds, GridPoint, Study, Traffic, evaluate, search
from kvtune_lab.readers.mooncake import repeat_mooncake
from kvtune_lab.sticky import StickyAssignment
from kvtune_lab.traffic import Request
from kvtune_lab.workload import WORKLOADS
from kvtune_tuner.scoring import prices

GRID_SECONDS_OF_TRAFFIC = 3600.0
"""Scaled seconds after the prefill on which the points are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestStatic:
    """The best point of the grid on the demo's traffic."""

    config: CacheConfig
    objective: float
    hit_rate: float
    share_within_limit: float
    points: str


def best_static(
    options: DemoOptions, policy: KVCachePolicy, progress: Callable[[int, int], None]
) -> BestStatic:
    """Search the policy's bounds under LRU, then its policies and thresholds at the best size found.

    Takes minutes; needs TTL, ratio and host memory in the policy. The whole grid under each eviction policy
    and store threshold would take that many times as long.
    """
    knobs = policy.spec.knobs
    ttl, ratio, host = knobs.cache_ttl, knobs.eviction_ratio, knobs.tiers.host_memory
    assert ttl and ratio and host, "the demo's own policy names all knobs"
    constants = PRESETS[TRACE_PRESET if options.trace else PRESET]
    block = constants.block_bytes
    traffic = _by_agent(_requests(options), options.agents)
    target = policy.spec.targets.ttft
    study = Study(
        constants=constants,
        prices=prices(policy.spec),
        limit_seconds=target.limit.seconds if target else 0.25,
        measure_from_s=PREFILL_SECONDS,
    )
    result = search(
        traffic,
        Bounds(
            ttl_seconds=(ttl.min.seconds, ttl.max.seconds),
            eviction_ratio=(ratio.min, ratio.max),
            host_blocks=(max(1, round(host.min.bytes / block)), round(host.max.bytes / block)),
        ),
        study,
        progress=progress,
    )
    best = max(
        (result.best, *_under_others(knobs, result.best, traffic, study)),
        key=lambda point: point.objective,
    )
    return BestStatic(
        config=_config(best.settings, knobs, block),
        objective=best.objective,
        hit_rate=best.hit_rate,
        share_within_limit=best.share_within_limit,
        points=f"{len(result.points)} configurations, {GRID_SECONDS_OF_TRAFFIC:,.0f} s",
    )


def _config(settings: CacheSettings, knobs: Knobs, block_bytes: int) -> CacheConfig:
    """The knobs that the policy names, as a configuration."""
    values = {
        Knob.CACHE_TTL: settings.ttl_seconds,
        Knob.EVICTION_RATIO: settings.eviction_ratio,
        Knob.HOST_MEMORY: float(settings.host_blocks * block_bytes),
    }
    if knobs.eviction_policy:
        values[Knob.EVICTION_POLICY] = number_of(EvictionPolicy(settings.policy))
    if knobs.store_threshold:
        values[Knob.STORE_THRESHOLD] = float(settings.store_threshold)
    return config(values)


def _under_others(knobs: Knobs, best: GridPoint, traffic: Traffic, study: Study) -> Iterator[GridPoint]:
    """The best size under each other policy and threshold, with the longest TTL: it leaves them a choice."""
    ttl, asked, stored = knobs.cache_ttl, knobs.eviction_policy, knobs.store_threshold
    assert ttl, "the demo's own policy names all knobs"
    policies = tuple(map(str, asked.choices)) if asked else (best.settings.policy,)
    thresholds = (stored.min, min(2 * stored.min, stored.max)) if stored else (best.settings.store_threshold,)
    for policy, threshold in product(policies, dict.fromkeys(thresholds)):
        settings = replace(
            best.settings, ttl_seconds=ttl.max.seconds, policy=policy, store_threshold=threshold
        )
        yield evaluate(traffic, settings, study)


def _by_agent(requests: Iterator[Request], agents: int) -> list[list[Request]]:
    """The requests of each agent, placed as the driver places them."""
    placed: list[list[Request]] = [[] for _ in range(agents)]
    sticky = StickyAssignment(agents)
    for request in requests:
        placed[sticky.agent_of(request.root, request.arrival_s)].append(request)
    return placed


def _requests(options: DemoOptions) -> Iterator[Request]:
    """The demo's requests from its prefill on, as the driver sends them."""
    source = (
        repeat_mooncake(options.trace)
        if options.trace
        else generate(
            requests_per_second=options.rate * options.agents, seed=options.seed, kinds=WORKLOADS[WORKLOAD]
        )
    )
    return takewhile(lambda request: request.arrival_s < PREFILL_SECONDS + GRID_SECONDS_OF_TRAFFIC, source)
