"""One control plane that ticks a few times and says what that took, as JSON on its standard output.

`python -m tests.benchmarks.tick_process FOLDER MODE TICKS`: FOLDER holds `token` and `addresses`, one a
line. A process of its own, so that its memory is that of a control plane and not of the bench.
"""

import asyncio
import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import mkdtemp

import aiohttp

from kvtune_api import codec
from kvtune_api.policy import KVCachePolicy
from kvtune_operator.adapters.agents import HttpAgents, TokenFile
from kvtune_operator.adapters.event_files import FileEvents
from kvtune_operator.adapters.fetch import Answer, Fetcher, session_of_agents
from kvtune_operator.adapters.files import FileObjects
from kvtune_operator.adapters.scrape import ScrapeMetrics
from kvtune_operator.clock import WallClock
from kvtune_operator.house import OneHouse
from kvtune_operator.ports import Sources, Unreachable
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


class _Counting(Fetcher):
    """Count calls and the bytes of bodies."""

    def __init__(self, session: aiohttp.ClientSession, seen: Exchanged, *, parallel: int) -> None:
        super().__init__(session, timeout_seconds=TIMEOUT_SECONDS, parallel=parallel)
        self._seen = seen

    async def get(self, url: str, *, limit_bytes: int, accept: str) -> Answer | Unreachable:
        """GET, counted."""
        return self._counted(await super().get(url, limit_bytes=limit_bytes, accept=accept))

    async def put(
        self, url: str, body: bytes, *, limit_bytes: int, headers: Mapping[str, str]
    ) -> Answer | Unreachable:
        """PUT, counted."""
        self._seen.bytes_out += len(body)
        return self._counted(await super().put(url, body, limit_bytes=limit_bytes, headers=headers))

    def _counted(self, answer: Answer | Unreachable) -> Answer | Unreachable:
        self._seen.calls += 1
        if isinstance(answer, Answer):
            self._seen.bytes_in += len(answer.body)
        return answer


async def ticked(folder: Path, mode: str, count: int) -> Ticked:
    """Tick so many times."""
    addresses = tuple((folder / "addresses").read_text().split())
    state = StateDir(Path(mkdtemp(dir=folder)))
    settings = Settings(state_dir=state.path, token_file=folder / "token", agents=addresses)
    clock, seen = WallClock(), Exchanged()
    objects = FileObjects(state)
    policy = await objects.apply_policy(_policy(mode))
    ticks = []
    try:
        async with session_of_agents() as session:
            fetcher = _Counting(session, seen, parallel=settings.http_parallel)
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
