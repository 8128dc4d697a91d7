"""A policy that raises, wherever the model is entered, gives way to LRU; no request fails by it."""

import pytest

from kvtune_agent.engines.replay import ReplayEngine
from kvtune_api.codec import parse
from kvtune_api.knobs import CacheConfig
from kvtune_cache.constants import H100_LLAMA8B
from kvtune_cache.serving import ServingModel
from kvtune_cache.tiers import CacheSettings
from tests.agent.engines.replaying import T, replayed
from tests.agent.fake_clock import FakeClock
from tests.agent.samples import batch

MATH = "ValueError: math domain error"


def with_policy(policy: str, *, blocks: int = 10, ttl: str = "60s") -> CacheConfig:
    host = {"hostMemory": str(blocks * H100_LLAMA8B.block_bytes)}
    return parse(
        CacheConfig, {"cacheTTL": ttl, "evictionRatio": 0.1, "tiers": host, "evictionPolicy": policy}
    )


class Raising(list[int]):
    """State of a policy that has gone wrong: to read it raises what math.log(-1) does, a ValueError."""

    def __getitem__(self, at: object) -> int:  # type: ignore[override]
        raise ValueError("math domain error")


class Model(ServingModel):
    """A model whose TokenLRU can be broken: where it evicts, drops or takes over blocks."""

    adopts = True

    def reconfigure(self, settings: CacheSettings, now_s: float) -> None:
        if settings.policy == "TokenLRU" and not self.adopts:
            raise ValueError("math domain error")
        super().reconfigure(settings, now_s)

    def break_evictions(self) -> None:
        cache = self._cache.host.cache
        self._replace(tokens=cache.tokens._replace(used=Raising(cache.tokens.used)))

    def break_drops(self) -> None:
        cache = self._cache.host.cache
        self._replace(queues=cache.queues._replace(queue=Raising(cache.queues.queue)))

    def _replace(self, **parts: object) -> None:
        host = self._cache.host
        host._cache = host.cache._replace(**parts)  # type: ignore[arg-type]
        self._cache._bind()


def new_engine(policy: str = "TokenLRU", clock: FakeClock | None = None) -> tuple[ReplayEngine, Model]:
    """An engine of 10 host blocks and its model."""
    engine = ReplayEngine(
        H100_LLAMA8B, with_policy(policy), clock or FakeClock(), keep_seconds=4200.0, serving=Model
    )
    model = engine._model
    assert isinstance(model, Model)
    return engine, model


def resident(engine: ReplayEngine) -> int:
    return round(engine.host_used_bytes() / H100_LLAMA8B.block_bytes)


def has_fallen(engine: ReplayEngine) -> bool:
    """Whether LRU runs because the policy has failed, as its fallback and its count say too."""
    found = engine.fallback
    failed = found is not None and (found.reason, found.message) == ("PolicyFailed", MATH)
    return failed and engine.settings.policy == "LRU" and engine.fallbacks == {"PolicyFailed": 1}


async def test_a_policy_that_raises_what_a_bad_request_raises_fails_no_request() -> None:
    engine, model = new_engine()
    await replayed(engine, batch(T + 10, *((T + i, [i]) for i in range(1, 11))))
    model.break_evictions()

    done = await replayed(engine, batch(T + 50, *((T + i, [i]) for i in range(11, 51))))

    assert (done.served, done.errors) == (40, 0)
    assert has_fallen(engine) and resident(engine) == 10
    assert model.totals.requests == 50


async def test_the_request_that_a_policy_fails_at_hits_what_was_there_before_it() -> None:
    engine, model = new_engine()
    await replayed(engine, batch(T + 10, (T + 1, list(range(6))), (T + 2, list(range(10, 14)))))
    model.break_evictions()

    await replayed(engine, batch(T + 20, (T + 11, [0, 1, 2, 3, 50, 51])))

    assert has_fallen(engine)
    assert model.totals.device_hit_tokens + model.totals.host_hit_tokens == 4 * 128


async def test_a_policy_that_raises_when_blocks_expire_gives_way_and_they_expire() -> None:
    engine, model = new_engine()
    await replayed(engine, batch(T + 10, (T + 1, [1]), (T + 9, [2])))
    model.break_drops()

    await replayed(engine, batch(T + 65))

    assert has_fallen(engine) and resident(engine) == 1
    done = await replayed(engine, batch(T + 70, (T + 66, [3])))
    assert (done.served, done.errors) == (1, 0)


async def test_a_policy_that_raises_when_blocks_expire_without_traffic_gives_way() -> None:
    clock = FakeClock(speed=60)
    engine, model = new_engine(clock=clock)
    await replayed(engine, batch(T + 10, (T + 1, [1])))
    model.break_drops()

    clock.advance(30)
    engine.follow()

    assert has_fallen(engine) and resident(engine) == 0


async def test_a_policy_that_fails_to_take_over_leaves_lru_with_the_other_settings() -> None:
    engine, model = new_engine("LRU")
    await replayed(engine, batch(T + 10, *((T + i, [i]) for i in range(1, 11))))
    model.adopts = False

    engine.apply(with_policy("TokenLRU", blocks=20, ttl="90s"))

    assert has_fallen(engine) and resident(engine) == 10
    assert (engine.settings.host_blocks, engine.settings.ttl_seconds) == (20, 90.0)
    assert engine.settings == model.settings


async def test_a_policy_that_fails_while_the_tier_shrinks_leaves_no_more_than_fits() -> None:
    engine, model = new_engine()
    await replayed(engine, batch(T + 10, *((T + i, [i]) for i in range(1, 11))))
    model.break_evictions()

    engine.apply(with_policy("TokenLRU", blocks=1))

    assert has_fallen(engine) and resident(engine) == 1
    assert engine.settings.host_blocks == 1


async def test_a_policy_that_fails_again_when_it_is_restored_is_not_restored() -> None:
    engine, model = new_engine("LRU")
    model.adopts = False
    engine.apply(with_policy("TokenLRU"))

    assert not engine.restore()

    assert engine.settings.policy == "LRU" and engine.fallbacks == {"PolicyFailed": 2}
    model.adopts = True
    assert engine.restore() and engine.settings.policy == "TokenLRU"


async def test_a_fallback_before_the_first_request_stays() -> None:
    engine, model = new_engine("LRU")
    model.adopts = False
    engine.apply(with_policy("TokenLRU"))

    await replayed(engine, batch(T + 10, (T + 1, [1])))

    assert has_fallen(engine)


async def test_only_a_bad_request_counts_as_an_error_and_it_is_no_failure_of_the_policy() -> None:
    engine, _ = new_engine()
    bad = batch(T + 10, (T + 1, [1, 2, 3]))
    bad.requests[0] = (T + 1, 1, 5, 10, [1, 2, 3], None)

    done = await replayed(engine, bad)

    assert (done.served, done.errors) == (0, 1)
    assert (engine.fallback, engine.settings.policy) == (None, "TokenLRU")


async def test_settings_that_lru_itself_fails_at_are_not_those_in_force() -> None:
    class Broken(ServingModel):
        def reconfigure(self, settings: CacheSettings, now_s: float) -> None:
            raise ZeroDivisionError("broken")

    engine = ReplayEngine(H100_LLAMA8B, with_policy("LRU"), FakeClock(), keep_seconds=4200.0, serving=Broken)

    with pytest.raises(ZeroDivisionError, match="broken"):
        engine.apply(with_policy("LRU", blocks=20))

    assert engine.settings.host_blocks == 10
