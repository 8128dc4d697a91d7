"""One tick of a real control plane against real agents over loopback: calls, bytes, time and memory."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TypedDict

import httpx

from kvtune_lab.traffic import Request
from tests.benchmarks.parallel import told
from tests.benchmarks.study import Effort, Results
from tests.benchmarks.table import Table
from tests.benchmarks.throughput import of_one_agent
from tests.benchmarks.traffic import CHAT_1

AGENTS, QUICK_AGENTS = (20, 200), (4,)
MODES = ("Observe", "Auto")
TICKS, QUICK_TICKS, REQUESTS = 12, 3, 300
TOKEN = "bench"


class Tick(TypedDict):
    """As tick_process writes it."""

    phase: str
    wall: float
    processor: float
    calls: int
    bytes_in: int
    bytes_out: int


class Ticked(TypedDict):
    """As tick_process writes it."""

    ticks: list[Tick]
    rss_mib: float
    waiting_for: str


@contextmanager
def farm(count: int) -> Iterator[Path]:
    """So many agents in one process, each with some traffic; the folder with token and addresses."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        token = folder / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        command = [sys.executable, "-m", "tests.benchmarks.agent_farm", str(count), str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            urls = [process.stdout.readline().strip() for _ in range(count)]
            (folder / "addresses").write_text("\n".join(urls))
            _fed(urls)
            yield folder
        finally:
            process.kill()
            process.wait(timeout=10)


def _fed(urls: Sequence[str]) -> None:
    """Give every agent the same requests, the last of them now."""
    requests = of_one_agent(CHAT_1, REQUESTS)
    origin = time.time() - requests[-1].arrival_s
    body = json.dumps({"until": time.time(), "requests": [_row(request, origin) for request in requests]})
    with httpx.Client(timeout=60.0) as client:
        for url in urls:
            answer = client.post(
                f"{url}/v1/replay", content=body, headers={"Authorization": f"Bearer {TOKEN}"}
            )
            answer.raise_for_status()


def _row(request: Request, origin: float) -> list[object]:
    return [
        request.arrival_s + origin,
        request.root,
        request.prompt_tokens,
        request.output_tokens,
        request.blocks,
    ]


def ticked(folder: Path, mode: str, count: int) -> Ticked:
    """Run a control plane of its own for some ticks."""
    command = [sys.executable, "-m", "tests.benchmarks.tick_process", str(folder), mode, str(count)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: Ticked = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(effort: Effort) -> Iterator[Results]:
    """Give the table after every size."""
    rows: list[tuple[str, ...]] = []
    sizes = QUICK_AGENTS if effort.quick else AGENTS
    for size in sizes:
        with farm(size) as folder:
            for mode in MODES:
                seen = ticked(folder, mode, effort.runs(TICKS, QUICK_TICKS))
                told(f"tick: {size} agents, {mode}: {seen['waiting_for']}")
                rows += _rows(size, seen)
        yield Results(tables=(_table(rows),), seeds="seed 1", partial=size != sizes[-1])


def _rows(size: int, seen: Ticked) -> list[tuple[str, ...]]:
    first, rest = seen["ticks"][0], seen["ticks"][1:]
    return [
        _shown(size, f"first of a process, {first['phase']}", [first], seen["rss_mib"]),
        _shown(size, f"later, {rest[-1]['phase']}", rest, seen["rss_mib"]),
    ]


def _shown(size: int, what: str, ticks: Sequence[Tick], rss_mib: float) -> tuple[str, ...]:
    return (
        f"{size} agents, {what}",
        f"{median(t['calls'] for t in ticks):.0f}",
        f"{median(t['bytes_in'] for t in ticks) / 1024:.0f}",
        f"{median(t['bytes_out'] for t in ticks) / 1024:.1f}",
        f"{1000 * median(t['wall'] for t in ticks):.0f}",
        f"{1000 * median(t['processor'] for t in ticks):.0f}",
        f"{rss_mib:.0f}",
    )


def _table(rows: Sequence[tuple[str, ...]]) -> Table:
    return Table(
        title="Reconciler, HTTP adapters and files",
        columns=("Tick", "HTTP calls", "KiB read", "KiB sent", "Wall, ms", "Processor, ms", "RSS, MiB"),
        rows=tuple(rows),
        notes=(
            "median over the ticks of a process; bytes are those of bodies; all agents in one other process "
            "on the same cores, so wall time is mostly theirs; processor time and RSS are the "
            "control plane's",
            "the first tick asks agents for window bounds that it has not scraped itself; an experiment "
            "takes 8 pairs at most, its pushes add one call per agent that changes",
        ),
    )
