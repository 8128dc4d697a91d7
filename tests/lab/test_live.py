"""Traffic for agents that come and go, against agents that are an in-memory transport."""

import asyncio
import json
from collections.abc import Sequence

import httpx
import pytest

from kvtune_lab.clock import ScaledClock
from kvtune_lab.live import LiveConfig, LiveTally, run_live
from kvtune_lab.posting import PostingConfig

ORIGIN = 1_000_000.0
RATE = 2.0


class Ground:
    """A clock that moves by a batch whenever the members are asked for, and agents that keep all roots."""

    def __init__(self, *members: Sequence[str]) -> None:
        self.members = list(members)
        self.steps = 0
        self.stop = asyncio.Event()
        self.tally = LiveTally()
        self.roots: dict[str, list[set[int]]] = {}
        self.hinted: list[bool] = []
        self.hinted_share = 0.0
        self.status = 200

    def now(self) -> Sequence[str]:
        step = self.steps
        self.steps += 1
        if step == len(self.members):
            self.stop.set()
        return self.members[min(step, len(self.members) - 1)]

    def handle(self, request: httpx.Request) -> httpx.Response:
        rows = json.loads(request.content)["requests"]
        self.hinted += [len(row) == 6 for row in rows]
        self.roots.setdefault(request.url.host, []).append({row[1] for row in rows})
        return httpx.Response(self.status, text="no")

    async def run(self) -> None:
        config = LiveConfig(
            posting=PostingConfig(retry_wall_seconds=0.0),
            requests_per_second=RATE,
            batch_seconds=10.0,
            hinted_share=self.hinted_share,
        )
        clock = ScaledClock(origin_unix_s=ORIGIN, speed=1.0, wall=lambda: ORIGIN + 10.0 * self.steps)
        transport = httpx.MockTransport(self.handle)
        async with httpx.AsyncClient(transport=transport) as client:
            await run_live(config, self.now, clock, self.stop, self.tally, client=client)

    def sent(self, host: str) -> set[int]:
        return set().union(*self.roots.get(host, [set()]))


async def test_every_agent_gets_the_same_load_and_its_own_sessions() -> None:
    ground = Ground(*[["http://a", "http://b"]] * 30)

    await ground.run()

    counts = [tally.posted_requests for tally in ground.tally.agents.values()]
    assert len(counts) == 2
    assert min(counts) > 0.7 * max(counts)
    assert not ground.sent("a") & ground.sent("b")
    assert ground.tally.lost_requests == 0


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
async def test_a_share_of_the_requests_comes_with_hints(share: float) -> None:
    ground = Ground(*[["http://a"]] * 30)
    ground.hinted_share = share

    await ground.run()

    assert len(ground.hinted) > 100
    assert sum(ground.hinted) / len(ground.hinted) == pytest.approx(share, abs=0.15)


def test_a_share_outside_its_limits_is_refused() -> None:
    with pytest.raises(ValueError, match=r"hinted_share: 1.5 is not within 0 to 1"):
        LiveConfig(hinted_share=1.5)


async def test_who_joins_gets_a_stream_of_its_own_and_takes_nothing_from_others() -> None:
    ground = Ground(*[["http://a"]] * 20, *[["http://a", "http://b"]] * 20)

    await ground.run()

    posted = {url: tally.posted_requests for url, tally in ground.tally.agents.items()}
    assert posted["http://a"] > 1.5 * posted["http://b"] > 0


async def test_who_comes_in_the_place_of_one_that_left_gets_its_sessions() -> None:
    both, one = ["http://a", "http://b"], ["http://a"]
    ground = Ground(*[both] * 20, *[one] * 5, *[["http://a", "http://c"]] * 20)

    await ground.run()

    assert ground.sent("c") & ground.sent("b"), "sessions of the place go on"
    assert not ground.sent("c") & ground.sent("a")
    assert ground.tally.lost_requests > 0, "nobody had the place for a while"


async def test_who_comes_back_gets_its_own_place_again() -> None:
    both = ["http://a", "http://b"]
    ground = Ground(*[both] * 20, *[[]] * 2, *[["http://b", "http://a"]] * 20)

    await ground.run()

    assert not ground.sent("a") & ground.sent("b")


async def test_refusals_are_counted_and_the_last_one_is_kept() -> None:
    ground = Ground(*[["http://a"]] * 5)
    ground.status = 401

    await ground.run()

    assert ground.tally.total("refused_requests") > 0
    assert ground.tally.last_refusal == "HTTP 401: no"


@pytest.mark.parametrize("field", ["requests_per_second", "batch_seconds"])
def test_what_is_not_above_zero_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field}: 0.0 is not a finite number greater than 0"):
        LiveConfig(**{field: 0.0})
