"""Memory of a real operator over ten thousand steps, with experiments that begin and end (case 42).

`python -m tests.benchmarks soak`. Ticks of .2 s in place of 5 s: the steps of fourteen hours of one policy.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.kubernetes_figures import Replica
from tests.benchmarks.kubernetes_ground import OWN_NAMESPACE, Scale, fleet
from tests.benchmarks.parallel import told
from tests.benchmarks.study import Effort, Results
from tests.benchmarks.table import Table

SCALE = Scale(policies=10, agents=4, namespaces=2, nodes=8)
TICK_SECONDS, LEASE_SECONDS = 0.2, 15.0
STEPS, QUICK_STEPS = 10_000, 300
ROWS = 10
PATIENCE_SECONDS = 900.0
SHORT = {
    "washout": {"min": "1s", "max": "1s"},
    "window": {"min": "5s", "max": "5s"},
    "minRequests": 10,
    "minPairs": 5,
    "maxPairs": 5,
}


def measure(effort: Effort) -> Iterator[Results]:
    """Give one table at the end."""
    with TemporaryDirectory(prefix="kvtune-soak-") as folder:
        rows = asyncio.run(_soaked(Path(folder), effort.runs(STEPS, QUICK_STEPS)))
    yield Results(tables=(_table(rows),), seeds="no seed")


async def _soaked(folder: Path, steps: int) -> list[tuple[str, ...]]:
    """Rows of steps taken, experiments ended, memory."""
    rows: list[tuple[str, ...]] = []
    async with fleet(SCALE, folder) as ground:
        await ground.edit({"paused": False, "experiment": SHORT})
        operator = Replica(
            ground.access,
            folder / "operator",
            "soak",
            OWN_NAMESPACE,
            lease_seconds=LEASE_SECONDS,
            tick_seconds=TICK_SECONDS,
        )
        began = time.monotonic()
        try:
            while len(rows) < ROWS and time.monotonic() - began < PATIENCE_SECONDS:
                await asyncio.sleep(1.0)
                taken = operator.err.count('"event": "step"')
                if taken >= steps * (len(rows) + 1) / ROWS:
                    started = sum(status.get("experimentsStarted", 0) for status in await ground.statuses())
                    now, most = operator.memory_mib()
                    rows.append((f"{taken:,}", f"{started}", f"{now:.1f}", f"{most:.1f}"))
                    told(f"soak: {rows[-1]}, {dict(operator.troubles())}")
        finally:
            operator.clean_up()
    return rows


def _table(rows: list[tuple[str, ...]]) -> Table:
    return Table(
        title="Memory over ten thousand steps",
        columns=("Steps", "Experiments started", "RSS, MiB", "Most so far, MiB"),
        rows=tuple(rows),
        notes=(
            f"{SCALE.policies} policies of {SCALE.agents} agents, a step each {TICK_SECONDS:g} s, "
            "experiments of some 40 s; goal: flat after the first thousands",
        ),
    )
