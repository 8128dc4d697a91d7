"""A policy that brings nothing or raises gives way to LRU, and comes back when told to."""

from collections.abc import Sequence

import pytest

from kvtune_agent.engines.replay import ReplayEngine
from kvtune_api.codec import parse
from kvtune_api.knobs import CacheConfig, EvictionPolicy
from kvtune_cache.constants import H100_LLAMA8B, EngineConstants
from kvtune_cache.guard import GuardRules
from kvtune_cache.serving import Served, ServingModel
from kvtune_cache.tiers import CacheSettings
from tests.agent.engines.replaying import T, replayed
from tests.agent.fake_clock import FakeClock
from tests.agent.samples import batch, cache_config

BLOCKS_A_REQUEST = 50


def with_policy(policy: EvictionPolicy) -> CacheConfig:
    return parse(
        CacheConfig,
        {"cacheTTL": "30s", "evictionRatio": 0.3, "tiers": {"hostMemory": "57Gi"}, "evictionPolicy": policy},
    )


class Failing(ServingModel):
    """A model whose policy ARC raises at a block that it does not like."""

    def serve(
        self,
        arrival_s: float,
        blocks: Sequence[int],
        prompt_tokens: int,
        root: int | None = None,
        *,
        kind: int = 0,
        output_tokens: int = -1,
        hint: float = 0.0,
    ) -> Served:
        if self.settings.policy == "ARC" and 13 in blocks:
            raise ZeroDivisionError("no history")
        return super().serve(
            arrival_s, blocks, prompt_tokens, root, kind=kind, output_tokens=output_tokens, hint=hint
        )


def new_engine(
    policy: EvictionPolicy, *, quiet_seconds: float | None = None, failing: bool = False
) -> ReplayEngine:
    return ReplayEngine(
        H100_LLAMA8B,
        with_policy(policy),
        FakeClock(speed=600),
        keep_seconds=4200.0,
        guard=GuardRules(quiet_seconds=quiet_seconds),
        serving=Failing if failing else made,
    )


def made(constants: EngineConstants, settings: CacheSettings) -> ServingModel:
    return ServingModel(constants, settings)


async def traffic(engine: ReplayEngine, since: float, until: float, *, new: bool) -> None:
    """Serve a request every 5 s, of blocks that nobody asked for before or of always the same."""
    requests = []
    at = since + 1
    while at < until:
        first = round(at) * 1000 if new else 1
        requests.append((at, list(range(first, first + BLOCKS_A_REQUEST))))
        at += 5
    await replayed(engine, batch(until, *requests))


async def test_without_reuse_for_five_minutes_lru_runs_in_place_of_the_policy_asked_for() -> None:
    engine = new_engine(EvictionPolicy.SIEVE)
    await traffic(engine, T, T + 290, new=True)
    assert (engine.fallback, engine.settings.policy) == (None, "SIEVE")

    await traffic(engine, T + 290, T + 320, new=True)

    assert engine.fallback is not None
    assert engine.fallback.reason == "LowReuse"
    assert engine.fallback.message == "reuse rate 0.000 under 0.4 for 300 s"
    assert T + 290 < engine.fallback.since <= T + 320
    assert engine.settings.policy == "LRU"
    assert engine.fallbacks == {"LowReuse": 1}


async def test_lru_itself_and_a_policy_under_reuse_are_left_alone() -> None:
    plain, busy = new_engine(EvictionPolicy.LRU), new_engine(EvictionPolicy.SIEVE)
    await traffic(plain, T, T + 600, new=True)
    await traffic(busy, T, T + 600, new=False)

    assert (plain.fallback, busy.fallback) == (None, None)
    assert busy.settings.policy == "SIEVE"


async def test_told_to_return_it_runs_the_policy_asked_for_again() -> None:
    engine = new_engine(EvictionPolicy.SIEVE)
    await traffic(engine, T, T + 320, new=True)
    assert engine.settings.policy == "LRU"

    assert engine.restore()
    assert (engine.fallback, engine.settings.policy) == (None, "SIEVE")
    assert not engine.restore()


async def test_with_a_quiet_time_it_returns_by_itself() -> None:
    engine = new_engine(EvictionPolicy.SIEVE, quiet_seconds=120.0)
    await traffic(engine, T, T + 320, new=True)
    assert engine.settings.policy == "LRU"

    await traffic(engine, T + 320, T + 1200, new=False)

    assert (engine.fallback, engine.settings.policy) == (None, "SIEVE")
    assert engine.fallbacks == {"LowReuse": 1}


async def test_another_policy_begins_without_the_fallback_of_the_last_one() -> None:
    engine = new_engine(EvictionPolicy.SIEVE)
    await traffic(engine, T, T + 320, new=True)

    engine.apply(with_policy(EvictionPolicy.SIEVE))
    assert engine.settings.policy == "LRU", "the same policy is no reason to return"
    engine.apply(with_policy(EvictionPolicy.S3FIFO))

    assert (engine.fallback, engine.settings.policy) == (None, "S3FIFO")


async def test_a_policy_that_raises_gives_way_at_once_and_every_block_stays() -> None:
    engine = new_engine(EvictionPolicy.ARC, failing=True)
    await replayed(engine, batch(T + 5, (T + 1, [1, 2, 3])))
    held = engine.host_used_bytes()

    done = await replayed(engine, batch(T + 15, (T + 6, [13]), (T + 7, [1, 2, 3])))

    assert (done.served, done.errors) == (2, 0)
    assert engine.fallback is not None
    assert (engine.fallback.reason, engine.fallback.message) == (
        "PolicyFailed",
        "ZeroDivisionError: no history",
    )
    assert engine.settings.policy == "LRU"
    assert engine.host_used_bytes() == held + H100_LLAMA8B.block_bytes, "all that it had, and block 13"
    newest = engine.newest()
    assert newest is not None
    assert newest.counters.hit_tokens == 3 * 128


async def test_what_raises_under_lru_is_a_bug_and_is_not_hidden() -> None:
    class Broken(ServingModel):
        def serve(
            self,
            arrival_s: float,
            blocks: Sequence[int],
            prompt_tokens: int,
            root: int | None = None,
            *,
            kind: int = 0,
            output_tokens: int = -1,
            hint: float = 0.0,
        ) -> Served:
            raise ZeroDivisionError("broken")

    engine = ReplayEngine(H100_LLAMA8B, cache_config(), FakeClock(), keep_seconds=4200.0, serving=Broken)

    with pytest.raises(ZeroDivisionError, match="broken"):
        await engine.replay(batch(T + 5, (T + 1, [1])))
