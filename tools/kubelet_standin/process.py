"""One run of one container: start its command in namespaces of its own, signal it, run commands in it."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LAUNCHER = Path(__file__).with_name("launch.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What to run: a command line, its variables, its mounts, and where its output goes."""

    command: Sequence[str]
    environment: dict[str, str]
    mounts: list[dict[str, object]]
    keep: Sequence[str]
    read_only_root: bool
    directory: str
    log: Path
    folder: Path


class Process:
    """A running container. The process that we start is the launcher, its child the container's PID 1."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, run: Run) -> "Process":
        """Start it; what cannot be run ends at once with exit code 127 and a line in its log."""
        scratch = run.folder / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        run.log.parent.mkdir(parents=True, exist_ok=True)
        spec = run.folder / "launch.json"
        spec.write_text(
            json.dumps(
                {
                    "mounts": run.mounts,
                    "keep": list(run.keep),
                    "read_only_root": run.read_only_root,
                    "command": list(run.command),
                    "directory": run.directory,
                    "scratch": str(scratch),
                }
            ),
            encoding="utf-8",
        )
        with run.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(LAUNCHER), str(spec)),
                env=run.environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return cls(process)

    async def ended(self) -> int:
        """Wait for its end; its exit code, 128 + the signal where a signal ended it."""
        code = await self._process.wait()
        return 128 - code if code < 0 else code

    async def stop(self, grace_seconds: float) -> int:
        """Ask it to end, kill it when the grace is over; its exit code."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_seconds):  # wait_for may lose a cancellation
                return await self.ended()
        except TimeoutError:
            return await self.kill()

    async def kill(self) -> int:
        """Kill everything in it; its exit code. Nothing of it lives when this returns."""
        inside = self._pid_inside()
        if inside is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(inside, signal.SIGKILL)
        else:
            self._signal(signal.SIGKILL)
        return await self.ended()

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            self._process.send_signal(number)

    async def run_inside(self, command: Sequence[str], timeout_seconds: float) -> int | None:
        """Run a command in the container's namespaces; its exit code, or None where it took too long."""
        inside = self._pid_inside()
        if inside is None:
            return None
        user = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
        probe = await asyncio.create_subprocess_exec(
            *("nsenter", f"--target={inside}", *user, "--mount", "--pid", "--", *command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(timeout_seconds):
                return await probe.wait()
        except TimeoutError:
            probe.kill()
            await probe.wait()
            return None

    def _pid_inside(self) -> int | None:
        pid = self._process.pid
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        except OSError:
            return None
        return int(children[0]) if children else None
