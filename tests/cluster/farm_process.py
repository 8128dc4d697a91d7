"""One process that is all agents of a test: simulated, told apart by the address that they are asked at.

Started by farm.py, `python -m tests.cluster.farm_process PLAN.json`. Also keeps the leases of the test's
nodes, as kubelets do, so that no controller takes them for dead.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from kvtune_api.codec import dump, parse
from kvtune_api.knobs import CacheConfig, Knob, config
from kvtune_api.wire import Fallback
from kvtune_operator.adapters.kube import connect
from kvtune_operator.clock import WallClock
from tests.fakes.http_pool import HttpPool
from tests.fakes.pool import Pool
from tests.fakes.responses import per_octave
from tests.fakes.sim import PoolSettings

HEARTBEAT_SECONDS = 10.0
TRIES = 50


class Agents:
    """The agents of all herds: one simulated pool a herd."""

    def __init__(self, plan: Mapping[str, Any], clock: WallClock) -> None:
        self._clock = clock
        self.names: dict[str, str] = {}
        """Agent by address."""

        self._herd: dict[str, HttpPool] = {}
        for herd in plan["herds"]:
            self._settle(herd, plan["token"])

    def _settle(self, herd: Mapping[str, Any], token: str) -> None:
        start = _config(herd["start"])
        gains = {Knob(name): gain for name, gain in herd["gains"].items()}
        settings = PoolSettings(
            agents=0, seed=herd["seed"], start=self.now(), request_rate=herd["rate"], noise_sd=herd["noise"]
        )
        pool = Pool(settings, surface=per_octave(start, gains), config=start)
        served = HttpPool(pool, self.now, token)
        for index, (name, address) in enumerate(herd["agents"].items()):
            pool.join(name, config=start, now=settings.start - settings.warm_seconds, index=index)
            self.names[address], self._herd[name] = name, served

    def now(self) -> float:
        """Unix seconds: the engine's clock."""
        return self._clock.now().timestamp()

    def of(self, name: str) -> HttpPool:
        """The pool of an agent."""
        return self._herd[name]

    def told(self) -> dict[str, Any]:
        """What every agent runs, and how often it was told something."""
        found = {}
        for name, herd in self._herd.items():
            agent = herd.pool.agents[name]
            herd.pool.report(name, self.now())  # a lease that has run out takes effect
            found[name] = {
                "role": agent.role.value,
                "config": dump(agent.config),
                "incumbent": dump(agent.incumbent),
                "generation": agent.generation,
                "token": agent.token,
                "policyUID": agent.policy_uid,
                "lapses": agent.lapses,
                "pushes": agent.pushes,
            }
        return found

    def pushes(self) -> list[dict[str, Any]]:
        """Every push that was taken, oldest first."""
        herds = {id(herd): herd for herd in self._herd.values()}.values()
        log = sorted((item for herd in herds for item in herd.pool.log), key=lambda item: item[0])
        return [{"at": at, "agent": agent, "push": dump(push)} for at, agent, push in log]

    def change(self, name: str, wish: Mapping[str, Any]) -> None:
        """Carry out one wish of a test at one agent."""
        pool = self.of(name).pool
        match wish:
            case {"rate": rate}:
                pool.set_traffic(self.now(), request_rate=rate, name=name)
            case {"errors": per_second}:
                pool.set_errors(self.now(), per_second=per_second, name=name)
            case {"fallback": fallback}:
                pool.agents[name].fallback = parse(Fallback, fallback)
            case {"restart": _}:
                pool.restart(name, self.now())
            case {"switch": switch, "to": value}:
                assert hasattr(pool.agents[name], switch), switch
                setattr(pool.agents[name], switch, value)
            case _:
                raise ValueError(f"unknown wish {wish}")


def _config(text: Mapping[str, float]) -> CacheConfig:
    return config({Knob(name): value for name, value in text.items()})


def app(agents: Agents) -> web.Application:
    """The agents' interface, and one for tests under /farm."""

    def asked(request: web.Request) -> str | None:
        assert request.transport is not None
        return agents.names.get(request.transport.get_extra_info("sockname")[0])

    def answer(status: int, body: str) -> web.Response:
        return web.Response(status=status, text=body, content_type="application/json")

    async def report(request: web.Request) -> web.Response:
        if (name := asked(request)) is None:
            return answer(404, "")
        at = request.query.get("at")
        return answer(*agents.of(name).report(name, None if at is None else float(at)))

    async def push(request: web.Request) -> web.Response:
        if (name := asked(request)) is None:
            return answer(404, "")
        given = request.headers.get("Authorization", "")
        return answer(*agents.of(name).push(name, given, await request.read()))

    async def restore(request: web.Request) -> web.Response:
        if (name := asked(request)) is None:
            return answer(404, "")
        return answer(*agents.of(name).restore(name, request.headers.get("Authorization", "")))

    async def told(request: web.Request) -> web.Response:
        return web.json_response(agents.told())

    async def pushes(request: web.Request) -> web.Response:
        return web.json_response(agents.pushes())

    async def change(request: web.Request) -> web.Response:
        wish = await request.json()
        for name in wish["agents"]:
            agents.change(name, wish)
        return web.json_response({})

    found = web.Application()
    found.router.add_get("/v1/report", report)
    found.router.add_put("/v1/config", push)
    found.router.add_post("/v1/eviction/restore", restore)
    found.router.add_get("/herds/agents", told)
    found.router.add_get("/herds/pushes", pushes)
    found.router.add_post("/herds/change", change)
    return found


def bound(addresses: list[str]) -> tuple[int, list[socket.socket]]:
    """Sockets on one free port of every address."""
    for _ in range(TRIES):
        opened = [socket.create_server((addresses[0], 0))]
        port = opened[0].getsockname()[1]
        try:
            opened += [socket.create_server((address, port)) for address in addresses[1:]]
        except OSError:  # somebody has the port at one of the addresses
            for one in opened:
                one.close()
            continue
        return port, opened
    raise OSError(f"no port is free at all of {len(addresses)} addresses")


async def keep_nodes(plan: Mapping[str, Any], clock: WallClock) -> None:
    """Renew the nodes' leases for ever."""
    root = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    async with connect(Path(plan["kubeconfig"])) as kube:
        for name in plan["nodes"]:
            await kube.create(root, {"metadata": {"name": name}, "spec": {"holderIdentity": name}})
        while True:
            stamp = clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            for name in plan["nodes"]:
                spec = {"renewTime": stamp, "leaseDurationSeconds": 40}
                await kube.merge(f"{root}/{name}", {"spec": spec})
            await clock.sleep(HEARTBEAT_SECONDS)


async def serve(plan: Mapping[str, Any]) -> None:
    """Be all agents until the end of the process."""
    clock = WallClock()
    agents = Agents(plan, clock)
    runner = web.AppRunner(app(agents), access_log=None)
    await runner.setup()
    port, sockets = bound(["127.0.0.1", *agents.names])
    for one in sockets:
        await web.SockSite(runner, one).start()
    sys.stdout.write(json.dumps({"port": port}) + "\n")
    sys.stdout.flush()
    await keep_nodes(plan, clock)


if __name__ == "__main__":
    asyncio.run(serve(json.loads(Path(sys.argv[1]).read_text())))
