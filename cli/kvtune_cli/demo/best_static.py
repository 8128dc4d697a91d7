"""The best static configuration for the demo's own traffic, searched offline on the same requests."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

from kvtune_api.knobs import CacheConfig, EvictionPolicy, Knob, config, number_of
from kvtune_api.policy import KVCachePolicy
from kvtune_api.ranges import PolicyChoices
from kvtune_cache.constants import PRESETS
from kvtune_cli.demo.fleet import PRESET, TRACE_PRESET
from kvtune_cli.demo.options import PREFILL_SECONDS, DemoOptions
from kvtune_lab.generator import generate
from kvtune_lab.grid import Bounds, GridPoint, Study, Traffic, evaluate, search
from kvtune_lab.readers.mooncake import repeat_mooncake
from kvtune_lab.sticky import StickyAssignment
from kvtune_lab.traffic import Request
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
    """Search the policy's bounds under LRU, then its eviction policies at the best point found.

    Takes minutes; needs TTL, ratio and host memory in the policy. The whole grid under each eviction policy
    would take that many times as long.
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
        (result.best, *_under_others(knobs.eviction_policy, result.best, traffic, study)),
        key=lambda point: point.objective,
    )
    return BestStatic(
        config=config({
            Knob.CACHE_TTL: best.settings.ttl_seconds,
            Knob.EVICTION_RATIO: best.settings.eviction_ratio,
            Knob.HOST_MEMORY: float(best.settings.host_blocks * block),
            **({Knob.EVICTION_POLICY: number_of(EvictionPolicy(best.settings.policy))}
               if knobs.eviction_policy else {}),
        }),
        objective=best.objective,
        hit_rate=best.hit_rate,
        share_within_limit=best.share_within_limit,
        points=f"{len(result.points)} configurations, {GRID_SECONDS_OF_TRAFFIC:,.0f} s",
    )  # fmt: skip


def _under_others(
    asked: PolicyChoices | None, best: GridPoint, traffic: Traffic, study: Study
) -> Iterator[GridPoint]:
    """The best point under each other eviction policy that the demo's policy allows."""
    for policy in asked.choices if asked else ():
        if policy != best.settings.policy:
            yield evaluate(traffic, replace(best.settings, policy=str(policy)), study)


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
        else generate(requests_per_second=options.rate * options.agents, seed=options.seed)
    )
    return takewhile(lambda request: request.arrival_s < PREFILL_SECONDS + GRID_SECONDS_OF_TRAFFIC, source)
