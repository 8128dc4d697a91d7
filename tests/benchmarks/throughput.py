"""Requests per second that one core replays: through the serving model, and through an agent's HTTP."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from kvtune_api.knobs import CacheConfig
from kvtune_cache.serving import ServingModel
from kvtune_lab.sticky import StickyAssignment
from kvtune_lab.traffic import Request
from tests.benchmarks.study import Effort, Results
from tests.benchmarks.table import Table
from tests.benchmarks.traffic import AGENTS, CHAT_5, MOONCAKE, Workload, config_of, present

REQUESTS, QUICK_REQUESTS, BATCH, SEED = 30_000, 2_000, 1_000, 1
BEST = config_of(420.0, 0.1, 285.0)
TOKEN = "bench"  # of an agent on loopback that lives for this measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Wall and processor seconds for a number of requests."""

    requests: int
    wall: float
    processor: float


def of_one_agent(workload: Workload, count: int) -> list[Request]:
    """The first requests that one agent of the pool sees."""
    sticky = StickyAssignment(AGENTS)
    mine = (r for r in workload.requests(SEED) if sticky.agent_of(r.root, r.arrival_s) == 0)
    return list(islice(mine, count))


def served(workload: Workload, config: CacheConfig, requests: Sequence[Request]) -> Measured:
    """Serve in this process."""
    model = ServingModel(workload.constants, workload.settings(config))
    wall, processor = time.perf_counter(), time.process_time()
    for request in requests:
        model.serve(request.arrival_s, request.blocks, request.prompt_tokens, request.root)
    return Measured(
        requests=len(requests), wall=time.perf_counter() - wall, processor=time.process_time() - processor
    )


def posted(workload: Workload, config: CacheConfig, requests: Sequence[Request]) -> Measured:
    """Post batches to an agent in a process of its own; processor time is the agent's."""
    origin = time.time() - requests[-1].arrival_s - 60.0
    with _agent(workload, config) as (url, pid), httpx.Client(timeout=60.0) as client:
        bodies = [_body(requests[i : i + BATCH], origin) for i in range(0, len(requests), BATCH)]
        wall, processor = time.perf_counter(), _processor_seconds(pid)
        for body in bodies:
            answer = client.post(
                f"{url}/v1/replay", content=body, headers={"Authorization": f"Bearer {TOKEN}"}
            )
            answer.raise_for_status()
        return Measured(
            requests=len(requests),
            wall=time.perf_counter() - wall,
            processor=_processor_seconds(pid) - processor,
        )


def _body(requests: Sequence[Request], origin: float) -> bytes:
    rows = [[r.arrival_s + origin, r.root, r.prompt_tokens, r.output_tokens, r.blocks] for r in requests]
    return json.dumps({"until": requests[-1].arrival_s + origin, "requests": rows}).encode()


@contextmanager
def _agent(workload: Workload, config: CacheConfig) -> Iterator[tuple[str, int]]:
    with TemporaryDirectory() as folder:
        token = Path(folder) / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        command = [
            sys.executable, "-m", "kvtune_agent", "--name", "bench", "--cache-ttl", str(config.cache_ttl),
            "--eviction-ratio", str(config.eviction_ratio), "--host-memory", str(config.tiers.host_memory),
            "--state-dir", str(Path(folder) / "state"), "--token-file", str(token),
            "--preset", workload.constants.name, "--eviction-policy", "LRU",
        ]  # fmt: skip
        agent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert agent.stdout is not None
            yield agent.stdout.readline().rsplit(" ", 1)[-1].strip(), agent.pid
        finally:
            agent.terminate()
            agent.wait(timeout=10)


def _processor_seconds(pid: int) -> float:
    """User and system seconds of a process so far; nan where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / 100.0


def measure(effort: Effort) -> Iterator[Results]:
    """Give the table after every row."""
    rows: list[tuple[str, ...]] = []
    cases = [(workload, BEST) for workload in (CHAT_5, MOONCAKE) if workload in present()]
    for workload, config in cases:
        requests = of_one_agent(workload, effort.runs(REQUESTS, QUICK_REQUESTS))
        blocks = sum(len(request.blocks) for request in requests) / len(requests)
        for way, take in (("serving model", served), ("agent over HTTP", posted)):
            rows.append(_row(workload, way, blocks, take(workload, config, requests)))
            yield Results(tables=(_table(rows),), seeds=f"seed {SEED}", partial=len(rows) < 2 * len(cases))


def _row(workload: Workload, way: str, blocks: float, seen: Measured) -> tuple[str, ...]:
    return (
        f"{workload.name}: {way}",
        f"{blocks:.0f}",
        f"{seen.requests / seen.processor:,.0f}",
        f"{1e6 * seen.processor / seen.requests:.0f}",
        f"{seen.requests / seen.wall:,.0f}",
    )


def _table(rows: Sequence[tuple[str, ...]]) -> Table:
    return Table(
        title="Replay, one core",
        columns=(
            "Workload and way",
            "Blocks a request",
            "Requests per processor second",
            "us a request",
            "Requests per wall second",
        ),
        rows=tuple(rows),
        notes=(
            f"requests of one agent at TTL 420 s, host 285 GiB, ratio .1; over HTTP in batches of {BATCH}, "
            "processor time of the agent's process alone; wall time is that of a shared machine",
        ),
    )
