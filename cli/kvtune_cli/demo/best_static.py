"""The best static configuration for the demo's own traffic, searched offline on the same requests."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from kvtune_api.knobs import CacheConfig, Knob, config
from kvtune_api.policy import KVCachePolicy
from kvtune_cache.constants import PRESETS
from kvtune_cli.demo.fleet import PRESET, TRACE_PRESET
from kvtune_cli.demo.options import PREFILL_SECONDS, DemoOptions
from kvtune_lab.generator import generate
from kvtune_lab.grid import Bounds, Study, search
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
    """Search the policy's bounds. Takes minutes; needs all three knobs in the policy."""
    knobs = policy.spec.knobs
    ttl, ratio, host = knobs.cache_ttl, knobs.eviction_ratio, knobs.tiers.host_memory
    assert ttl and ratio and host, "the demo's own policy names all knobs"
    constants = PRESETS[TRACE_PRESET if options.trace else PRESET]
    block = constants.block_bytes
    traffic = _by_agent(_requests(options), options.agents)
    target = policy.spec.targets.ttft
    result = search(
        traffic,
        Bounds(
            ttl_seconds=(ttl.min.seconds, ttl.max.seconds),
            eviction_ratio=(ratio.min, ratio.max),
            host_blocks=(max(1, round(host.min.bytes / block)), round(host.max.bytes / block)),
        ),
        Study(
            constants=constants,
            prices=prices(policy.spec),
            limit_seconds=target.limit.seconds if target else 0.25,
            measure_from_s=PREFILL_SECONDS,
        ),
        progress=progress,
    )
    best = result.best
    return BestStatic(
        config=config({
            Knob.CACHE_TTL: best.settings.ttl_seconds,
            Knob.EVICTION_RATIO: best.settings.eviction_ratio,
            Knob.HOST_MEMORY: float(best.settings.host_blocks * block),
        }),
        objective=best.objective,
        hit_rate=best.hit_rate,
        share_within_limit=best.share_within_limit,
        points=f"{len(result.points)} configurations, {GRID_SECONDS_OF_TRAFFIC:,.0f} s",
    )  # fmt: skip


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
