"""The operator at scale on a real API server: steps, fan-out, calls, memory, start and takeover.

`python -m tests.benchmarks kubernetes`, `make bench-kubernetes`. Everything shares the machine's cores: the
API server, the agents and the operator that is measured.
"""

import asyncio
import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.kubernetes_figures import Replica, audited, moment, quantile
from tests.benchmarks.kubernetes_ground import OWN_NAMESPACE, Fleet, Scale, fleet, knobs
from tests.benchmarks.kubernetes_tables import TICK_SECONDS, FanOut, Measured, Span, Start, tables
from tests.benchmarks.parallel import told
from tests.benchmarks.study import Effort, Results

FULL = (
    Scale(policies=50, agents=20, namespaces=10, nodes=1000),
    Scale(policies=1, agents=1000, namespaces=1, nodes=1000),
)
QUICK = (Scale(policies=3, agents=4, namespaces=2, nodes=6),)
LEASES, QUICK_LEASES = (15.0, 6.0), (3.0,)
REST_SECONDS, QUICK_REST_SECONDS = 60.0, 10.0
LIVE_SECONDS, QUICK_LIVE_SECONDS = 90.0, 20.0
EDITS, QUICK_EDITS = 3, 1
PATIENCE_SECONDS = 120.0


def measure(effort: Effort) -> Iterator[Results]:
    """Give the tables after every scale."""
    done: list[Measured] = []
    scales = QUICK if effort.quick else FULL
    for scale in scales:
        with TemporaryDirectory(prefix="kvtune-bench-") as folder:
            done.append(asyncio.run(_measured(scale, Path(folder), effort)))
        yield Results(tables=tuple(tables(done)), seeds="no seed", partial=scale != scales[-1])


async def _measured(scale: Scale, folder: Path, effort: Effort) -> Measured:
    told(f"kubernetes: {scale.name}: starting the cluster")
    found = Measured(scale)
    async with fleet(scale, folder) as ground:
        for number, lease in enumerate(QUICK_LEASES if effort.quick else LEASES):
            if number and scale.policies == 1:
                break
            place = folder / f"lease-{lease:g}"
            first = _replica(ground, place, "first", lease)
            try:
                began = time.time()
                await _until(partial(_all_stepped, first, scale.policies), first, "steps of all")
                if not number:
                    found.start = _start(first, began)
                    told(f"kubernetes: {scale.name}: {found.start}")
                    await _all_spans(ground, first, found, effort)
                found.takeovers += (await _takeover(ground, first, place, lease),)
                told(f"kubernetes: {scale.name}: takeover {found.takeovers[-1]}")
            finally:
                first.clean_up()
    return found


async def _all_spans(ground: Fleet, operator: Replica, found: Measured, effort: Effort) -> None:
    await asyncio.sleep(3 * TICK_SECONDS)
    rest = QUICK_REST_SECONDS if effort.quick else REST_SECONDS
    found.spans += (await _span(ground, operator, "at rest", rest),)
    told(f"kubernetes: {ground.scale.name}: {found.spans[-1]}")
    for number in range(QUICK_EDITS if effort.quick else EDITS):
        found.fan_outs += (await _fan_out(ground, 40 + 10 * number),)
        told(f"kubernetes: {ground.scale.name}: {found.fan_outs[-1]}")
    await ground.edit({"paused": False})
    await asyncio.sleep(3 * TICK_SECONDS)
    live = QUICK_LIVE_SECONDS if effort.quick else LIVE_SECONDS
    found.spans += (await _span(ground, operator, "experiments run", live),)
    told(f"kubernetes: {ground.scale.name}: {found.spans[-1]}")
    running = sum("experiment" in status for status in await ground.statuses())
    told(f"kubernetes: {ground.scale.name}: {running} experiments run")


def _all_stepped(operator: Replica, policies: int) -> bool:
    return len({step.policy for step in operator.steps()}) == policies


def _replica(ground: Fleet, folder: Path, name: str, lease: float) -> Replica:
    return Replica(
        ground.access, folder / name, name, OWN_NAMESPACE, lease_seconds=lease, tick_seconds=TICK_SECONDS
    )


async def _until(ready: Callable[[], bool], operator: Replica, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not await asyncio.to_thread(ready):
        if time.monotonic() > deadline or not operator.alive:
            raise RuntimeError(f"no {what} after {PATIENCE_SECONDS:.0f} s: {operator.err[-3000:]}")
        await asyncio.sleep(0.2)


def _start(operator: Replica, began: float) -> Start:
    leading = next(moment(line) for line in operator.said() if line["event"] == "leading")
    firsts: dict[str, float] = {}
    for step in operator.steps():
        firsts.setdefault(step.policy, step.at)
    return Start(
        leading=leading - began,
        first_step=min(firsts.values()) - began,
        all_stepped=max(firsts.values()) - began,
    )


async def _span(ground: Fleet, operator: Replica, what: str, seconds: float) -> Span:
    """Look at an operator for so long."""
    since, processor = time.time(), operator.processor_seconds()
    before = await asyncio.to_thread(operator.calls)
    await asyncio.sleep(seconds)
    until, used = time.time(), operator.processor_seconds() - processor
    own = await asyncio.to_thread(operator.calls)
    own.subtract(before)
    steps = [step for step in operator.steps() if since <= step.at < until]
    by_policy: dict[str, list[float]] = {}
    for step in steps:
        by_policy.setdefault(step.policy, []).append(step.seconds)
    rss, most = operator.memory_mib()
    return Span(
        what=what,
        seconds=until - since,
        steps=tuple(step.seconds for step in steps),
        slowest_policy=max(quantile(values, 0.99) for values in by_policy.values()),
        calls=audited(ground.access, since, until),
        own_calls=+own,
        processor=used,
        rss_mib=rss,
        most_mib=most,
        troubles=operator.troubles(),
    )


async def _fan_out(ground: Fleet, ttl_seconds: int) -> FanOut:
    """Put every incumbent out of bounds: each agent is given another one."""
    _seen(ground)
    count, edited = ground.scale.policies * ground.scale.agents, time.time()
    await ground.edit({"knobs": knobs(ttl_seconds)})
    pushes: list[float] = []
    while len(pushes) < count and time.time() - edited < PATIENCE_SECONDS:
        await asyncio.sleep(0.5)
        pushes += _seen(ground)
    first = min(pushes)
    await asyncio.sleep(TICK_SECONDS)
    return FanOut(
        agents=len(pushes),
        p99=quantile(pushes, 0.99) - first,
        whole=max(pushes) - first,
        from_edit=max(pushes) - edited,
    )


def _seen(ground: Fleet) -> list[float]:
    """When pushes have arrived since it was last asked."""
    with urllib.request.urlopen(f"http://127.0.0.1:{ground.port}/seen", timeout=10) as answer:
        pushes: list[float] = json.load(answer)["pushes"]
        return pushes


async def _takeover(ground: Fleet, leader: Replica, place: Path, lease: float) -> tuple[float, float, float]:
    """Kill the leader; seconds until the other leads, and until its first step."""
    other = _replica(ground, place, "other", lease)
    try:
        await _until(lambda: "standing by" in other.err, other, "standby")
        await asyncio.sleep(lease / 2)
        killed = time.time()
        await asyncio.to_thread(leader.kill_9)
        await _until(lambda: bool(other.steps()), other, "step of the standby")
        leading = next(moment(line) for line in other.said() if line["event"] == "leading")
        return lease, leading - killed, other.steps()[0].at - killed
    finally:
        other.clean_up()
