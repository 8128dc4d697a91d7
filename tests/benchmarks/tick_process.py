"""One control plane that ticks a few times and says what that took, as JSON on its standard output.

`python -m tests.benchmarks.tick_process FOLDER MODE TICKS`: FOLDER holds `token` and `addresses`, one a
line. A process of its own, so that its memory is that of a control plane and not of the bench.
"""

import asyncio
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import mkdtemp

import httpx

from kvtune_api import codec
from kvtune_api.policy import KVCachePolicy
from kvtune_operator.adapters.agents import HttpAgents, TokenFile
from kvtune_operator.adapters.event_files import FileEvents
from kvtune_operator.adapters.fetch import Fetcher
from kvtune_operator.adapters.files import FileObjects
from kvtune_operator.adapters.scrape import ScrapeMetrics
from kvtune_operator.clock import WallClock
from kvtune_operator.house import OneHouse
from kvtune_operator.ports import Sources
from kvtune_operator.reconcile import Reconciler
from kvtune_operator.settings import Settings
from kvtune_operator.statedir import StateDir
from tests.benchmarks.traffic import CHAT_5

TIMEOUT_SECONDS = 60.0
"""Not the 2 s of a control plane: every agent shares one or two busy cores here."""


@dataclass(slots=True, kw_only=True)
class Exchanged:
    """What went over the wire."""

    calls: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One tick."""

    phase: str
    wall: float
    processor: float
    calls: int
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """All ticks, and the process afterwards."""

    ticks: tuple[Tick, ...]
    rss_mib: float
    waiting_for: str


class _Counted(httpx.AsyncByteStream):
    """A body whose bytes are counted."""

    def __init__(self, stream: httpx.AsyncByteStream, seen: Exchanged) -> None:
        self._stream = stream
        self._seen = seen

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            self._seen.bytes_in += len(part)
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Counting(httpx.AsyncHTTPTransport):
    """Count calls and the bytes of bodies."""

    def __init__(self, seen: Exchanged, limits: httpx.Limits) -> None:
        super().__init__(limits=limits, trust_env=False)
        self._seen = seen

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._seen.calls += 1
        self._seen.bytes_out += len(await request.aread())
        answer = await super().handle_async_request(request)
        assert isinstance(answer.stream, httpx.AsyncByteStream)
        return httpx.Response(
            answer.status_code,
            headers=answer.headers,
            stream=_Counted(answer.stream, self._seen),
            extensions=answer.extensions,
        )


async def ticked(folder: Path, mode: str, count: int) -> Ticked:
    """Tick so many times."""
    addresses = tuple((folder / "addresses").read_text().split())
    state = StateDir(Path(mkdtemp(dir=folder)))
    settings = Settings(state_dir=state.path, token_file=folder / "token", agents=addresses)
    clock, seen = WallClock(), Exchanged()
    limits = httpx.Limits(max_connections=settings.http_parallel, max_keepalive_connections=256)
    objects = FileObjects(state)
    policy = await objects.apply_policy(_policy(mode))
    ticks = []
    try:
        transport = _Counting(seen, limits)
        async with httpx.AsyncClient(transport=transport, timeout=TIMEOUT_SECONDS, trust_env=False) as client:
            fetcher = Fetcher(client, timeout_seconds=TIMEOUT_SECONDS, parallel=settings.http_parallel)
            reconciler = Reconciler(
                agents=HttpAgents(fetcher, TokenFile(settings.token_file), addresses=addresses),
                house=OneHouse(Sources(metrics=ScrapeMetrics(fetcher))),
                objects=objects,
                events=FileEvents(state.events),
                clock=clock,
                token=int(time.time() * 1000),
                settings=settings,
            )
            for _ in range(count):
                ticks.append(await _timed(reconciler, objects, policy.metadata.name, seen))
                await clock.sleep(1.0)
        last = await objects.policy(policy.metadata.name)
    finally:
        objects.close()
    waiting = last.status.waiting_for if last and last.status else ""
    return Ticked(ticks=tuple(ticks), rss_mib=_rss_mib(), waiting_for=waiting)


async def _timed(reconciler: Reconciler, objects: FileObjects, name: str, seen: Exchanged) -> Tick:
    before = (seen.calls, seen.bytes_in, seen.bytes_out)
    wall, processor = time.perf_counter(), time.process_time()
    await reconciler.tick(name)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    policy = await objects.policy(name)
    return Tick(
        phase=str(policy.status.phase) if policy and policy.status else "",
        wall=wall,
        processor=processor,
        calls=seen.calls - before[0],
        bytes_in=seen.bytes_in - before[1],
        bytes_out=seen.bytes_out - before[2],
    )


def _policy(mode: str) -> KVCachePolicy:
    policy = CHAT_5.policy_document(CHAT_5.start(0.05))
    policy["spec"]["mode"] = mode
    return codec.parse(KVCachePolicy, policy)


def _rss_mib() -> float:
    status = Path("/proc/self/status")
    found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found.group(1)) / 1024 if found else float("nan")


def main(arguments: Sequence[str]) -> None:
    """Tick and write the result."""
    found = asyncio.run(ticked(Path(arguments[0]), arguments[1], int(arguments[2])))
    sys.stdout.write(json.dumps(asdict(found)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
