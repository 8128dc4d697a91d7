"""Reading a thousand agents once and telling them once: our fetcher beside httpx, in one run.

`python -m tests.benchmarks fetch`. No cluster: the light agents of kubernetes_agents.py on loopback.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import httpx

from kvtune_api.wire import Report
from kvtune_operator.adapters.agents import HttpAgents, TokenFile
from kvtune_operator.adapters.fetch import fetching
from kvtune_operator.ports import Accepted
from kvtune_operator.process import allow_many_files
from tests.benchmarks.parallel import told
from tests.benchmarks.study import Effort, Results
from tests.benchmarks.table import Table
from tests.fakes.samples import incumbent_push
from tools.controlplane.process import free_ports

AGENTS, QUICK_AGENTS = 1000, 20
ROUNDS, QUICK_ROUNDS, HTTPX_ROUNDS = 7, 2, 2
PARALLEL = 64
TIMEOUT_SECONDS = 60.0
TOKEN = "bench-token"
GOAL_SECONDS = 2.0

Ask = Callable[[int], Awaitable[int]]
"""One round, by its number; how many agents answered as they should."""


def measure(effort: Effort) -> Iterator[Results]:
    """Give one table."""
    allow_many_files()
    count = effort.runs(AGENTS, QUICK_AGENTS)
    with TemporaryDirectory() as folder, _agents(Path(folder), count) as addresses:
        rows = asyncio.run(_rows(Path(folder), addresses, effort.runs(ROUNDS, QUICK_ROUNDS)))
    yield Results(tables=(_table(count, rows),), seeds="no seed")


@contextmanager
def _agents(folder: Path, count: int) -> Iterator[dict[str, str]]:
    """So many agents in one process; address by name."""
    [port] = free_ports(1)
    names = {f"127.4.{number // 250}.{number % 250 + 1}": f"agent-{number:04}" for number in range(count)}
    (folder / "agents.json").write_text(json.dumps(names))
    (folder / "token").write_text(TOKEN)
    module, place = "tests.benchmarks.kubernetes_agents", folder / "agents.json"
    with subprocess.Popen(
        [sys.executable, "-m", module, str(port), place, TOKEN], stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield {name: f"http://{address}:{port}" for address, name in names.items()}
        finally:
            process.kill()


async def _rows(folder: Path, addresses: dict[str, str], rounds: int) -> list[tuple[str, ...]]:
    rows = []
    async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, trust_env=False) as client:
        gate = asyncio.Semaphore(PARALLEL)

        async def body(address: str) -> int:
            async with gate:
                return (await client.get(f"{address}/v1/report")).status_code

        async def all_bodies(_: int) -> int:
            return (await asyncio.gather(*map(body, addresses.values()))).count(200)

        rows.append(await _timed("httpx: bodies of all reports", all_bodies, len(addresses), HTTPX_ROUNDS))
    async with fetching(timeout_seconds=TIMEOUT_SECONDS, parallel=PARALLEL) as fetcher:
        agents = HttpAgents(fetcher, TokenFile(folder / "token"), address_of=addresses.__getitem__)

        async def body_of(name: str) -> bool:
            url = f"{addresses[name]}/v1/report"
            answer = await fetcher.get(url, limit_bytes=1 << 20, accept="application/json")
            return getattr(answer, "status", 0) == 200

        async def bodies(_: int) -> int:
            return sum((await fetcher.for_each(tuple(addresses), body_of)).values())

        async def reports(_: int) -> int:
            found = await agents.reports(tuple(addresses))
            return sum(isinstance(report, Report) for report in found.values())

        async def pushes(number: int) -> int:
            push = incumbent_push(number + 1, ttl=60.0 + number)
            answers = await agents.push(dict.fromkeys(addresses, push))
            return sum(isinstance(answer, Accepted) for answer in answers.values())

        for what, ask in (
            ("ours (aiohttp): bodies of all reports", bodies),
            ("ours: all reports, parsed and checked", reports),
            ("ours: a push to all, answers parsed", pushes),
        ):
            rows.append(await _timed(what, ask, len(addresses), rounds))
    return rows


async def _timed(what: str, ask: Ask, expected: int, rounds: int) -> tuple[str, ...]:
    """The first round, with connections yet to open, and the median of the others."""
    walls, processors = [], []
    for number in range(rounds):
        wall, processor = time.perf_counter(), time.process_time()
        answered = await ask(number)
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
        if answered != expected:
            raise RuntimeError(f"{what}: {answered} of {expected} agents answered")
    told(f"fetch: {what}: {walls}")
    later = (_ms(median(walls[1:])), _ms(median(processors[1:])))
    return (what, _ms(walls[0]), later[0], _ms(max(walls[1:])), later[1])


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f}"


def _table(count: int, rows: Sequence[tuple[str, ...]]) -> Table:
    return Table(
        title=f"{count:,} agents, {PARALLEL} requests at once",
        columns=("What", "First, ms", "Later, ms", "Longest later, ms", "Processor, ms"),
        rows=tuple(rows),
        notes=(
            "httpx: two rounds under its own limits (20 kept connections); with 1,000 kept ones it looks "
            "through all of them at every request, and a round took tens of seconds of processor time",
            f"goal: a fan-out to 1,000 agents within {GOAL_SECONDS:g} s; the first opens its connections",
            "processor time is the control plane's; the agents, one light process, share the cores",
        ),
    )
