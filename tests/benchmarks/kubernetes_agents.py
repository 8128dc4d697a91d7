"""A thousand agents in one light process: the wire of an agent, and of its life only what the wire shows.

`python -m tests.benchmarks.kubernetes_agents PORT AGENTS TOKEN`: AGENTS is a file of a JSON object, address
to name; TOKEN the write token. Agents are told apart by the local address of a connection. Ready when it has
printed a line. `GET /seen` (of any agent) gives what has arrived since it was last asked.

Bodies are put together from parts made in advance, for this process shares its cores with what is measured.
"""

import asyncio
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kvtune_api.codec import canonical
from kvtune_api.knobs import Knob
from kvtune_api.wire import GRID_SECONDS, Counters, Histogram, KnobSupport, Load, Report, Role, Running
from tests.fakes.pool import GEOMETRY
from tests.fakes.responses import exponential_reuse
from tests.fakes.samples import cache_config
from tests.fakes.sim import TTFT_BOUNDS

START: Final = cache_config()
RATE = 10.0
PROMPT_TOKENS, HIT_RATE, SHARE = 2000.0, 0.5, 0.8
WARM_SECONDS = 1200.0
"""Agents have served for so long when they start."""

HEAD = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
Object = dict[str, Any]


class Seen:
    """What has arrived, by time (unix seconds)."""

    def __init__(self) -> None:
        self.reports: list[float] = []
        self.pushes: list[float] = []

    def taken(self) -> bytes:
        """Everything so far as JSON, and forget it."""
        found = {"reports": self.reports, "pushes": self.pushes, "processor": time.process_time()}
        self.reports, self.pushes = [], []
        return json.dumps(found).encode()


class LightAgent:
    """One agent: counters that are a function of time, and what was pushed last."""

    def __init__(self, name: str, number: int, started_at: float) -> None:
        self.started_at = started_at
        self._phase = number * 0.7
        self._parts = [part.encode() for part in _report(name, started_at).split("@")]
        self._role, self._config, self._incumbent = "incumbent", _plain(START), _plain(START)
        self._generation, self._token, self._uid = 0, 0, ""
        self._lease_ends: float | None = None
        self._running = self._fixed()

    def report(self, now: float, at: float | None) -> bytes:
        """The body of a report."""
        head, middle, running, tail = self._parts
        newest = now // GRID_SECONDS * GRID_SECONDS
        counters = self._counters(newest if at is None else at)
        return b"%s%.3f%s%s%s%s%s" % (head, now, middle, self._now_running(now), running, counters, tail)

    def push(self, body: bytes, now: float) -> tuple[int, bytes]:
        """Status and body of an answer; the fencing rule of docs/architecture.md."""
        told = json.loads(body)
        self._lapse(now)
        mine = told["policyUID"] == self._uid
        if told["token"] < self._token:
            return 409, b'{"message":"lower","reason":"StaleToken"}'
        if told["token"] == self._token and mine and told["generation"] < self._generation:
            return 409, b'{"message":"lower","reason":"StaleGeneration"}'
        self._role, self._config = told["role"], told["config"]
        self._generation, self._token, self._uid = told["generation"], told["token"], told["policyUID"]
        lease = told.get("leaseSeconds")
        self._lease_ends = None if lease is None else now + lease
        if lease is None:
            self._incumbent = told["config"]
        self._running = self._fixed()
        return 200, self._now_running(now)

    def _lapse(self, now: float) -> None:
        if self._lease_ends is not None and now > self._lease_ends:
            self._role, self._config, self._lease_ends = "incumbent", self._incumbent, None
            self._running = self._fixed()

    def _now_running(self, now: float) -> bytes:
        self._lapse(now)
        if self._lease_ends is None:
            return self._running
        return b'{"leaseRemainingSeconds":%.3f,%s' % (self._lease_ends - now, self._running[1:])

    def _fixed(self) -> bytes:
        return json.dumps(
            {
                "role": self._role,
                "config": self._config,
                "incumbent": self._incumbent,
                "generation": self._generation,
                "token": self._token,
                "policyUID": self._uid,
            }
        ).encode()

    def _counters(self, at: float) -> bytes:
        """Straight lines with a slow wave, so that windows differ a little."""
        served = RATE * (at - self.started_at) + 3.0 * (1.0 + math.sin(self._phase + at / 37.0))
        prompt = PROMPT_TOKENS * served
        within = SHARE * served
        steps = b",".join(b"%.3f" % (within if bound < 1.0 else served) for bound in TTFT_BOUNDS)
        return (
            b'{"at":%.1f,"startedAt":%.1f,"requests":%.3f,"promptTokens":%.1f,"hitTokens":%.1f,'
            b'"evictionPasses":%.3f,"bytesDown":0,"errors":0,"newSessionRoots":%.3f,'
            b'"ttft":{"bounds":%s,"counts":[%s,%.3f],"sum":%.3f}}'
        ) % (
            at, self.started_at, served, prompt, HIT_RATE * prompt,
            served / 1e4, served / 10, _BOUNDS, steps, served, served / 5,
        )  # fmt: skip


_BOUNDS: Final = json.dumps(TTFT_BOUNDS).encode()


def _plain(value: object) -> Object:
    found: Object = json.loads(canonical(value))
    return found


def _report(name: str, started_at: float) -> str:
    """A report of the API's own types, an `@` for each part that changes."""
    histogram = Histogram(bounds=TTFT_BOUNDS, counts=(0,) * (len(TTFT_BOUNDS) + 1), sum=0)
    whole = _plain(
        Report(
            agent=name,
            version="0.1.0",
            engine="light",
            clock=0.0,
            started_at=started_at,
            running=Running(role=Role.INCUMBENT, config=START, incumbent=START),
            supports=tuple(KnobSupport(knob=knob, live=True) for knob in Knob),
            geometry=GEOMETRY,
            load=Load(span_seconds=600.0, request_rate=RATE, hit_rate=HIT_RATE),
            counters=Counters(at=0.0, started_at=started_at, ttft=histogram),
            reuse=exponential_reuse(),
        )
    )
    for field in ("clock", "running", "counters"):
        del whole[field]
    return '{"clock":@,"running":@,"counters":@,' + json.dumps(whole)[1:]


class Wire(asyncio.Protocol):
    """One connection: requests one after the other, keep-alive."""

    def __init__(self, agents: dict[str, LightAgent], token: str, seen: Seen) -> None:
        self._agents, self._seen = agents, seen
        self._authorization = f"authorization: bearer {token}".lower().encode()
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Know which agent is asked."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._agent = self._agents.get(transport.get_extra_info("sockname")[0])

    def data_received(self, data: bytes) -> None:
        """Answer every whole request."""
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            head = self._held[:end]
            length = _length(head) if head.startswith(b"PUT") else 0
            if len(self._held) < end + 4 + length:
                return
            body, self._held = self._held[end + 4 : end + 4 + length], self._held[end + 4 + length :]
            status, answer = self._answer(head, body)
            self._transport.write(HEAD % (status, len(answer)) + answer)

    def _answer(self, head: bytes, body: bytes) -> tuple[int, bytes]:
        now, target = time.time(), head.split(b" ", 2)[1]
        if target == b"/seen":
            return 200, self._seen.taken()
        if self._agent is None:
            return 404, b"{}"
        if head.startswith(b"PUT"):
            if self._authorization not in head.lower():
                return 401, b'{"message":"wrong token","reason":"Unauthorized"}'
            self._seen.pushes.append(now)
            return self._agent.push(body, now)
        self._seen.reports.append(now)
        _, _, at = target.partition(b"?at=")
        return 200, self._agent.report(now, float(at) if at else None)


def _length(head: bytes) -> int:
    return int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])


async def serve(port: int, names: dict[str, str], token: str) -> None:
    """Serve until killed."""
    started_at = time.time() // GRID_SECONDS * GRID_SECONDS - WARM_SECONDS
    agents = {
        address: LightAgent(name, number, started_at)
        for number, (address, name) in enumerate(sorted(names.items()))
    }
    seen, loop = Seen(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: Wire(agents, token, seen), "0.0.0.0", port, backlog=4096)
    sys.stdout.write("serving\n")
    sys.stdout.flush()
    await server.serve_forever()


def main(arguments: Sequence[str]) -> None:
    """Serve as many agents as the file names."""
    port, path, token = arguments
    asyncio.run(serve(int(port), json.loads(Path(path).read_text()), token))


if __name__ == "__main__":
    main(sys.argv[1:])
