"""Start the demo's processes, find out when they are ready, and end every one of them."""

import asyncio
import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from kvtune_api.errors import Unavailable

READY_SECONDS = 60.0
END_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Child:
    """One process, in a session of its own so that Ctrl-C reaches the demo alone."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.returncode is None

    def kill(self) -> None:
        """End it at once, as a crash would."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    async def end(self, *, seconds: float = END_SECONDS) -> int:
        """Ask it to end (SIGTERM) and wait; kill it when it does not. Returns its exit code."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
        try:
            return await asyncio.wait_for(self.process.wait(), seconds)
        except TimeoutError:
            self.kill()
            return await self.process.wait()

    def last_words(self) -> str:
        """The end of its log, for an error message."""
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return "no log"
        return " | ".join(lines[-3:]) or "it said nothing"


class Children:
    """All processes of a run. Leaving the context ends every one, youngest first."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._all: list[Child] = []

    async def __aenter__(self) -> "Children":
        self._logs.mkdir(parents=True, exist_ok=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        for child in self._all:
            if child.alive:
                with contextlib.suppress(ProcessLookupError):
                    child.process.send_signal(signal.SIGTERM)
        await asyncio.gather(*(child.end() for child in self._all), return_exceptions=True)

    async def start(self, name: str, *command: str) -> Child:
        """Start `python -m <command>`, tied to this process; its output goes to a log of its own."""
        log = self._logs / f"{name}.log"
        with log.open("ab") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "kvtune_cli.demo.tied",
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=_environment(),
            )
        child = Child(name, process, log)
        self._all.append(child)
        return child


def _environment() -> dict[str, str]:
    """One thread per library: the demo runs many processes on few cores."""
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return {**os.environ, **single, "PYTHONUNBUFFERED": "1"}


async def wait_for_text(child: Child, text: str, *, seconds: float = READY_SECONDS) -> str:
    """The first line of a log that holds `text`; raise `Unavailable` when the process dies or is late."""
    deadline = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < deadline:
        for line in child.log.read_text(errors="replace").splitlines():
            if text in line:
                return line
        if not child.alive:
            raise Unavailable(
                f"{child.name} ended with exit code {child.process.returncode}: {child.last_words()}"
            )
        await asyncio.sleep(0.05)
    raise Unavailable(f"{child.name} was not ready within {seconds:g} s: {child.last_words()}")
