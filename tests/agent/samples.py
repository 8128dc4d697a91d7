"""Settings, pushes and batches that the agent's tests share."""

from pathlib import Path
from typing import Any

from kvtune_agent.agent import Agent, open_agent
from kvtune_agent.clock import Clock
from kvtune_agent.engines.batches import ReplayBatch
from kvtune_agent.settings import AgentSettings
from kvtune_api.codec import parse
from kvtune_api.knobs import CacheConfig
from kvtune_api.wire import Push

TOKEN = "correct-horse"
WRITE = {"authorization": f"Bearer {TOKEN}"}


def cache_config(ttl: str = "30s", ratio: float = 0.3, host: str = "57Gi") -> CacheConfig:
    """A complete configuration; the demo's poor start by default."""
    plain = {"cacheTTL": ttl, "evictionRatio": ratio, "tiers": {"hostMemory": host}}
    return parse(CacheConfig, plain | {"evictionPolicy": "LRU", "storeThreshold": 1})


START = cache_config()
BETTER = cache_config(ttl="120s")


def push_body(**changes: Any) -> dict[str, Any]:
    """A push of a candidate as JSON; `changes` by outside names, None leaves a field out."""
    body: dict[str, Any] = {
        "role": "candidate",
        "generation": 1,
        "token": 1,
        "policyUID": "p1",
        "config": {"cacheTTL": "120s", "evictionRatio": 0.3, "tiers": {"hostMemory": "57Gi"}},
        "leaseSeconds": 30,
    }
    if changes.get("role") == "incumbent":
        del body["leaseSeconds"]
    return {key: value for key, value in (body | changes).items() if value is not None}


def push(**changes: Any) -> Push:
    """A push as a value."""
    return parse(Push, push_body(**changes))


def settings(folder: Path, **changes: Any) -> AgentSettings:
    """Settings of an agent whose files are under `folder`; writes the token file."""
    token_file = folder / "token"
    if not token_file.exists():
        token_file.write_text(TOKEN + "\n")
        token_file.chmod(0o600)
    values: dict[str, Any] = {
        "name": "a1",
        "config": START,
        "state_dir": folder / "state",
        "token_file": token_file,
    }
    return AgentSettings(**(values | changes))


def new_agent(folder: Path, clock: Clock, **changes: Any) -> Agent:
    """An agent on the replay engine."""
    return open_agent(settings(folder, speed=clock.speed, **changes), clock)


def batch(until: float, *requests: tuple[float, list[int]]) -> ReplayBatch:
    """A batch of requests (arrival, blocks) whose last block is full."""
    return ReplayBatch(
        until=until,
        requests=[(arrival, blocks[0], 128 * len(blocks), 10, blocks) for arrival, blocks in requests],
    )
