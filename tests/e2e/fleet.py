"""Agents and traffic as a user starts them, and control planes on them."""

import json
import shutil
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx

from kvtune_api.codec import parse_json
from kvtune_api.errors import Corrupt
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.policy import KVCachePolicy
from kvtune_api.wire import Report, Role
from kvtune_api.wire import Running as RunningConfig
from kvtune_operator.statedir import StateDir, experiments, policies
from tests.e2e.policies import quick, write_policy
from tests.e2e.processes import KVTUNE, LAB, Running, kvtune, until

T = TypeVar("T")

AGENTS = 4
SPEED = 60.0
RATE = 2.0
TICK_SECONDS = 10.0
PREFILL_SECONDS = 120.0
KNOBS = (
    *("--cache-ttl", "20s", "--eviction-ratio", "0.3", "--host-memory", "14Gi"),
    *("--eviction-policy", "LRU"),  # cheap on lists: it is not what is tested here
)


class Fleet:
    """Four agents under traffic on one scaled clock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token_file = folder / "token"
        assert kvtune("token", "--file", self.token_file).returncode == 0
        self.origin = time.time() // 5 * 5
        self.ports = free_ports(AGENTS)
        self.urls = tuple(f"http://127.0.0.1:{port}" for port in self.ports)
        self.agents = [self.start_agent(number) for number in range(AGENTS)]
        for agent in self.agents:
            agent.until_said("listens on")
        self.client = httpx.Client(timeout=30, trust_env=False)
        self.driver = Running(
            self.folder / "logs",
            "driver",
            LAB,
            "drive",
            *("--agents", ",".join(self.urls)),
            *("--token-file", self.token_file),
            *("--origin", self.origin, "--speed", SPEED, "--rate", RATE, "--prefill", PREFILL_SECONDS),
        )
        self.driver.until_said('"prefilled"')

    def start_agent(self, number: int) -> Running:
        """Start (again) an agent on its port, with its state directory."""
        name = f"agent-{number + 1}"
        return Running(
            self.folder / "logs",
            name,
            KVTUNE,
            "agent",
            *("--name", name, "--state-dir", self.folder / name, "--token-file", self.token_file),
            *("--port", self.ports[number], "--origin", self.origin, "--speed", SPEED, *KNOBS),
        )

    def restart_agent(self, number: int) -> None:
        """Start an agent again that has been killed."""
        self.agents[number] = self.start_agent(number)
        until(lambda: self.report(number), f"agent {number + 1} answers", lambda: self.agents[number].err)

    def report(self, number: int) -> Report | None:
        """What an agent says of itself; None while it does not answer."""
        try:
            answer = self.client.get(f"{self.urls[number]}/v1/report")
        except httpx.HTTPError:
            return None
        return parse_json(Report, answer.content) if answer.status_code == 200 else None

    def reports(self) -> list[Report]:
        """The reports of all agents; each must answer in the end."""
        return [answered(self.report, number) for number in range(AGENTS)]

    def exposed(self) -> list[int]:
        """Agents that run a candidate now; each must answer in the end."""
        return [number for number in range(AGENTS) if answered(self._role, number) is Role.CANDIDATE]

    def _role(self, number: int) -> Role | None:
        try:
            answer = self.client.get(f"{self.urls[number]}/v1/config")
        except httpx.HTTPError:
            return None
        return parse_json(RunningConfig, answer.content).role if answer.status_code == 200 else None

    def at_home(self) -> bool:
        """Whether every agent runs its incumbent."""
        return not self.exposed()

    def close(self) -> None:
        """End everything."""
        self.client.close()
        self.driver.send(signal.SIGTERM) if self.driver.alive else None
        for process in (*self.agents, self.driver):
            process.clean_up()
            process.check_no_traceback()


class Plane:
    """A `kvtune up` on a fleet, with a state directory of its own."""

    def __init__(self, fleet: Fleet, folder: Path, document: dict[str, Any] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.fleet = fleet
        self.folder = folder
        self.path = folder / "state"
        self.policy_file = write_policy(folder / "policy.yaml", document or quick())
        self.starts = 0
        self.ups: list[Running] = []

    @property
    def up(self) -> Running:
        """The newest process."""
        return self.ups[-1]

    def start(self, *extra: object) -> Running:
        """Start the control plane and wait until it holds its state directory."""
        started = self.start_only(*extra)
        started.until_said("fencing token")
        return started

    def start_only(self, *extra: object) -> Running:
        """Start the control plane."""
        self.starts += 1
        fleet = self.fleet
        started = Running(
            self.folder / "logs",
            f"up-{self.starts}",
            KVTUNE,
            "up",
            *("-f", self.policy_file, "--state-dir", self.path, "--token-file", fleet.token_file),
            *("--agents", ",".join(fleet.urls), "--origin", fleet.origin, "--speed", SPEED),
            *("--tick", TICK_SECONDS, "--health-port", -1, *extra),
        )
        self.ups.append(started)
        return started

    def policy(self) -> KVCachePolicy | None:
        """The policy with its status as stored."""
        found = policies(StateDir(self.path))
        return found[0] if found else None

    def experiments(self) -> tuple[KVCacheExperiment, ...]:
        """All experiments as stored."""
        return experiments(StateDir(self.path))

    def status(self) -> Any:
        """What `kvtune status --json` prints."""
        done = kvtune("status", "--state-dir", self.path, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def events(self) -> str:
        """The events of `kvtune status --json`, as one text."""
        return "\n".join(f"{event['reason']}: {event['message']}" for event in self.status()["events"])

    def until(self, ask: Callable[[KVCacheExperiment], object], what: str) -> KVCacheExperiment:
        """Wait for an experiment of which something holds."""

        def found() -> KVCacheExperiment | None:
            assert self.up.alive, f"up ended with {self.up.process.returncode}: {self.up.err[-2000:]}"
            return next((item for item in reversed(self.experiments()) if ask(item)), None)

        return until(found, what, self.describe)

    def until_ended(self, name: str) -> KVCacheExperiment:
        """Wait until an experiment has ended and is written down."""
        return self.until(lambda e: e.metadata.name == name and e.status.ended_at, f"{name} ends")

    def until_exposed(self) -> KVCacheExperiment:
        """Wait until agents run a candidate; the experiment."""
        until(lambda: self.fleet.exposed() or None, "a candidate is live", self.describe)
        return self.until(lambda e: e.status.outcome is None, "an experiment runs")

    def kill_9_while_exposed(self) -> tuple[KVCacheExperiment, list[int]]:
        """Kill the control plane while agents run a candidate; the experiment and those agents.

        It is held first and looked at then, so that nothing moves in between.
        """
        while True:
            self.until_exposed()
            self.up.send(signal.SIGSTOP)
            exposed = self.fleet.exposed()
            if exposed:
                self.up.kill_9()
                running = next(e for e in reversed(self.experiments()) if e.status.outcome is None)
                return running, exposed
            self.up.send(signal.SIGCONT)

    def describe(self) -> str:
        """What stands still, for a failed wait."""
        try:
            policy = self.policy()
        except Corrupt as error:
            return str(error)
        status = policy.status if policy else None
        waits = f"{status.phase}: {status.waiting_for} {status.conditions}" if status else "no status"
        known = [(e.metadata.name, e.status.phase) for e in self.experiments()]
        return f"{waits}; {known}; {self.up.err[-500:]}"

    def close(self) -> None:
        """End every control plane and wait until the agents are home, so that the next test may begin."""
        for process in self.ups:
            if process.alive:
                process.stop()
            process.check_no_traceback()
        until(self.fleet.at_home, "all agents are on their incumbents")
        shutil.rmtree(self.folder, ignore_errors=True)


def answered(ask: Callable[[int], T | None], number: int) -> T:
    """What an agent answers in the end."""
    return until(lambda: ask(number), f"agent {number + 1} answers")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(opened.getsockname()[1]) for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports
