"""Silent agents of some policies never hold up the others: counted in virtual time, without a socket."""

import asyncio
import contextlib
import selectors
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import aiohttp

from kvtune_operator.adapters.fair_gate import FairGate
from kvtune_operator.adapters.fetch import FLOOR_SHARE, SETTLE_SECONDS, SHARED, Answer, Fetcher
from kvtune_operator.ports import Unreachable

T = TypeVar("T")
TIMEOUT_SECONDS = 2.0
PARALLEL = 64
ANSWERS_SECONDS = 0.01
FLOOR = PARALLEL // FLOOR_SHARE
POLICIES, AGENTS = 50, 20
SILENT = {f"silent-{number}": [f"s{number}-{agent}" for agent in range(AGENTS)] for number in range(POLICIES)}
HEALTHY = [f"healthy-{agent}" for agent in range(AGENTS)]


class _Jumping(selectors.SelectSelector):
    """Nothing is waited for: time jumps to the next timer."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time passes only while everybody waits."""

    def __init__(self) -> None:
        self.jumping = _Jumping()
        super().__init__(self.jumping)

    def time(self) -> float:
        return self.jumping.now


def virtually(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def now() -> float:
    return asyncio.get_running_loop().time()


class _Content:
    async def iter_any(self) -> AsyncIterator[bytes]:
        yield b"{}"


class _Got:
    status = 200
    headers: Mapping[str, str] = {}
    content = _Content()


class Agents:
    """In place of a session: agents answer after a while, those named s... never do unless they are well."""

    def __init__(self) -> None:
        self.well = set[str]()
        self.asked = Counter[str]()
        self.busy = self.most = 0

    @contextlib.asynccontextmanager
    async def request(self, method: str, url: str, **_: object) -> AsyncIterator[_Got]:
        name = urlsplit(url).netloc
        self.asked[name] += 1
        self.busy += 1
        self.most = max(self.most, self.busy)
        try:
            silent = name.startswith("s") and name not in self.well
            await asyncio.sleep(3600 if silent else ANSWERS_SECONDS)
            yield _Got()
        finally:
            self.busy -= 1


def fetcher_of(agents: Agents) -> Fetcher:
    session = cast(aiohttp.ClientSession, agents)
    return Fetcher(session, timeout_seconds=TIMEOUT_SECONDS, parallel=PARALLEL)


Asked = dict[str, Answer | Unreachable]


async def gets(fetcher: Fetcher, agents: Sequence[str]) -> tuple[float, Asked]:
    """How long a round takes, and its answers."""

    async def ask(agent: str) -> Answer | Unreachable:
        return await fetcher.get(f"http://{agent}/v1/report", limit_bytes=99, accept="*/*")

    return await timed(fetcher, agents, ask)


async def puts(fetcher: Fetcher, agents: Sequence[str]) -> tuple[float, Asked]:
    async def ask(agent: str) -> Answer | Unreachable:
        return await fetcher.put(f"http://{agent}/v1/config", b"{}", limit_bytes=99, headers={})

    return await timed(fetcher, agents, ask)


async def timed(
    fetcher: Fetcher, agents: Sequence[str], ask: Callable[[str], Awaitable[Answer | Unreachable]]
) -> tuple[float, Asked]:
    began = now()
    answers = await fetcher.for_each(agents, ask)
    return now() - began, answers


def others_ask(
    fetcher: Fetcher, policies: Sequence[str] = tuple(SILENT)
) -> list[asyncio.Task[tuple[float, Asked]]]:
    return [asyncio.ensure_future(gets(fetcher, SILENT[name])) for name in policies]


def all_well(answers: Asked) -> bool:
    return all(isinstance(answer, Answer) for answer in answers.values())


def test_a_healthy_policy_is_served_at_once_while_others_ask_a_thousand_silent_agents() -> None:
    async def work() -> None:
        agents = Agents()
        fetcher = fetcher_of(agents)
        others = others_ask(fetcher)
        await asyncio.sleep(0.001)
        seconds, answers = await gets(fetcher, HEALTHY)
        await asyncio.gather(*others)

        assert all_well(answers)
        assert seconds <= -(-AGENTS // FLOOR) * ANSWERS_SECONDS + 1e-6
        assert agents.most <= SHARED * PARALLEL + (POLICIES + 1) * FLOOR

    virtually(work())


def test_silence_that_is_known_costs_the_others_nothing_at_all() -> None:
    async def work() -> None:
        fetcher = fetcher_of(Agents())
        await asyncio.gather(*others_ask(fetcher))
        others = others_ask(fetcher)
        await asyncio.sleep(0.001)
        seconds, answers = await gets(fetcher, HEALTHY)
        rounds = [took for took, _ in await asyncio.gather(*others)]

        assert all_well(answers)
        assert seconds <= ANSWERS_SECONDS + 1e-6
        assert max(rounds) <= 2 * (TIMEOUT_SECONDS + SETTLE_SECONDS) + 1e-6

    virtually(work())


def test_pushes_do_not_wait_for_reports() -> None:
    async def work() -> None:
        fetcher = fetcher_of(Agents())
        others = others_ask(fetcher)
        await asyncio.sleep(0.001)
        seconds, answers = await puts(fetcher, HEALTHY)
        await asyncio.gather(*others)

        assert all_well(answers)
        assert seconds <= ANSWERS_SECONDS + 1e-6

    virtually(work())


def test_a_silent_agent_of_ones_own_costs_one_timeout_whatever_others_ask() -> None:
    async def work() -> None:
        fetcher = fetcher_of(Agents())
        mine = [*HEALTHY, "silent-of-mine"]
        await asyncio.gather(gets(fetcher, mine), *others_ask(fetcher))
        others = others_ask(fetcher)
        await asyncio.sleep(0.001)
        seconds, answers = await gets(fetcher, mine)
        await asyncio.gather(*others)

        assert isinstance(answers.pop("silent-of-mine"), Unreachable)
        assert all_well(answers)
        assert seconds <= SETTLE_SECONDS + TIMEOUT_SECONDS + 1e-6

    virtually(work())


def test_every_silent_agent_is_asked_again_in_turn_and_found_when_it_is_well() -> None:
    async def work() -> None:
        agents = Agents()
        fetcher = fetcher_of(agents)
        few = list(SILENT)[:20]
        await asyncio.gather(*others_ask(fetcher, few))
        asked_before = agents.asked.copy()
        for _ in range(AGENTS // 2 + 1):
            await asyncio.gather(*others_ask(fetcher, few))
        again = agents.asked - asked_before
        assert len(again) == len(few) * AGENTS

        agents.well = set(agents.asked)
        rounds = await asyncio.gather(*others_ask(fetcher, few))
        assert all(all_well(answers) for _, answers in rounds)

    virtually(work())


def test_an_agent_that_is_not_asked_again_yet_keeps_its_message() -> None:
    async def work() -> None:
        fetcher = fetcher_of(Agents())
        silent = [f"s{number}" for number in range(500)]
        _, first = await gets(fetcher, silent)
        seconds, second = await gets(fetcher, silent)

        assert first == second
        assert seconds <= 2 * (TIMEOUT_SECONDS + SETTLE_SECONDS) + 1e-6

    virtually(work())


def test_one_policy_asks_a_thousand_agents_as_many_at_once_as_before() -> None:
    async def work() -> None:
        agents = Agents()
        seconds, answers = await gets(fetcher_of(agents), [f"a{number}" for number in range(1000)])

        assert all_well(answers)
        assert agents.most == PARALLEL
        assert seconds <= -(-1000 // PARALLEL) * ANSWERS_SECONDS + 1e-6

    virtually(work())


def test_a_cancelled_caller_leaves_no_slot_behind() -> None:
    async def work() -> None:
        gate = FairGate(1)
        reached = []

        async def hold(name: str) -> None:
            async with gate.slot("one"):
                reached.append(name)
                await asyncio.sleep(5)

        tasks = [asyncio.ensure_future(hold(name)) for name in "abc"]
        await asyncio.sleep(1)
        tasks[1].cancel()
        tasks[0].cancel()
        await asyncio.sleep(1)

        assert reached == ["a", "c"]
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with gate.slot("two", within_seconds=0.1):
            reached.append("two")

    virtually(work())
