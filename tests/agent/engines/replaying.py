"""A replay engine, what it was given and what it counted."""

from kvtune_agent.engine import Missed
from kvtune_agent.engines.batches import ReplayBatch, Replayed
from kvtune_agent.engines.replay import ReplayEngine
from kvtune_api.knobs import CacheConfig
from kvtune_cache.constants import H100_LLAMA8B
from tests.agent.fake_clock import ORIGIN, FakeClock
from tests.agent.samples import START

T = ORIGIN
"""When the engine's clock begins."""


def new_engine(
    clock: FakeClock, *, config: CacheConfig = START, keep_seconds: float = 4200.0
) -> ReplayEngine:
    """An engine that begins with a configuration."""
    return ReplayEngine(H100_LLAMA8B, config, clock, keep_seconds=keep_seconds)


def requests_at(engine: ReplayEngine, at: float) -> float | Missed | None:
    """How many requests it had counted at a time, or why that is not known."""
    found = engine.at(at)
    return found if isinstance(found, Missed) else found.counters.requests


async def replayed(engine: ReplayEngine, one: ReplayBatch) -> Replayed:
    """What became of a batch that the engine has taken."""
    done = await engine.replay(one)
    assert isinstance(done, Replayed)
    return done
