"""The demo's fleet: agents with the replay engine, the traffic driver, and the control plane."""

import asyncio
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from kvtune_api.knobs import CacheConfig, EvictionPolicy
from kvtune_api.wire import GRID_SECONDS
from kvtune_cli.clock import unix_seconds
from kvtune_cli.demo.options import PREFILL_SECONDS, TICK_SECONDS, WORKLOAD, DemoOptions
from kvtune_cli.demo.processes import Child, Children, wait_for_text

PRESET, TRACE_PRESET = "h100-llama8b", "h100-llama8b-512"
LEAD_SECONDS = 10.0
"""Wall seconds from the first agent's start to scaled second 0: starting and feeding take about that."""

PREFILL_LIMIT_SECONDS = 120.0

UNTUNED = EvictionPolicy.LRU
"""What agents run under a policy that does not tune it: the best static value is searched under it, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What runs, and where."""

    options: DemoOptions
    children: Children
    origin: float
    """Unix second at which scaled and wall time agree: scaled second 0 of the run."""

    token_file: Path
    policy_file: Path
    addresses: tuple[str, ...] = ()

    @property
    def state_dir(self) -> Path:
        """The control plane's state directory."""
        return self.options.directory / "state"

    @property
    def end(self) -> float:
        """Scaled unix second at which the main act ends."""
        return self.origin + self.options.scaled_seconds

    def now(self) -> float:
        """Scaled unix seconds."""
        return self.origin + (unix_seconds() - self.origin) * self.options.speed

    def elapsed(self) -> float:
        """Scaled seconds since the start of the run."""
        return self.now() - self.origin


def new_fleet(options: DemoOptions, children: Children, policy_text: str) -> Fleet:
    """Lay the run's folder out: a token that only this user can read, and the policy."""
    options.directory.mkdir(parents=True, exist_ok=True)
    token_file = options.directory / "token"
    descriptor = os.open(token_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
    policy_file = options.directory / "policy.yaml"
    policy_file.write_text(policy_text)
    origin = (unix_seconds() + LEAD_SECONDS) // GRID_SECONDS * GRID_SECONDS + GRID_SECONDS
    return Fleet(
        options=options, children=children, origin=origin, token_file=token_file, policy_file=policy_file
    )


async def start_agents(fleet: Fleet, config: CacheConfig) -> tuple[str, ...]:
    """Start the agents; return their addresses once all of them listen."""
    started = [await _agent(fleet, f"agent-{number + 1}", config) for number in range(fleet.options.agents)]
    lines = await asyncio.gather(*(wait_for_text(child, "listens on") for child in started))
    return tuple(line.split("listens on", 1)[1].split()[0] for line in lines)


async def _agent(fleet: Fleet, name: str, config: CacheConfig) -> Child:
    host = config.tiers.host_memory
    return await fleet.children.start(
        name,
        "kvtune_agent",
        *("--name", name),
        *("--state-dir", str(fleet.options.directory / name)),
        *("--token-file", str(fleet.token_file)),
        *("--cache-ttl", str(config.cache_ttl)),
        *("--eviction-ratio", str(config.eviction_ratio)),
        *("--host-memory", str(host) if host else "64Gi"),
        *("--eviction-policy", str(config.eviction_policy or UNTUNED)),
        *(("--store-threshold", str(config.store_threshold)) if config.store_threshold else ()),
        *("--preset", TRACE_PRESET if fleet.options.trace else PRESET),
        *("--origin", str(fleet.origin)),
        *("--speed", str(fleet.options.speed)),
    )


async def start_driver(fleet: Fleet) -> Child:
    """Start the traffic: first what comes before the start, then on the clock."""
    options = fleet.options
    generated = ("--workload", WORKLOAD, "--rate", str(options.rate))
    source = ("--trace", str(options.trace)) if options.trace else generated
    return await fleet.children.start(
        "driver",
        "kvtune_lab",
        "drive",
        *("--agents", ",".join(fleet.addresses)),
        *("--token-file", str(fleet.token_file)),
        *("--origin", str(fleet.origin)),
        *("--speed", str(options.speed)),
        *("--seed", str(options.seed)),
        *("--prefill", str(PREFILL_SECONDS)),
        *source,
    )


async def wait_for_prefill(driver: Child) -> None:
    """Return once what comes before the start has been fed."""
    await wait_for_text(driver, '"prefilled"', seconds=PREFILL_LIMIT_SECONDS)


async def start_control_plane(fleet: Fleet, name: str, *, ends_at: str | None) -> Child:
    """Start `kvtune up`; return once it holds its state directory."""
    bound = ("--ends-at", ends_at) if ends_at else ()
    child = await fleet.children.start(
        name,
        "kvtune_cli",
        "up",
        *("--file", str(fleet.policy_file)),
        *("--agents", ",".join(fleet.addresses)),
        *("--state-dir", str(fleet.state_dir)),
        *("--token-file", str(fleet.token_file)),
        *("--origin", str(fleet.origin)),
        *("--speed", str(fleet.options.speed)),
        *("--tick", str(TICK_SECONDS)),
        *("--health-port", "-1"),
        *("--log-level", "warning"),
        *bound,
    )
    await wait_for_text(child, "fencing token")
    return child
