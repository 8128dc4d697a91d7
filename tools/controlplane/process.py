"""One program in the background: its output in a file, in a process group of its own, never left behind."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.controlplane.clock import until
from tools.controlplane.errors import NotStarted

LEASH = Path(__file__).with_name("leash.py")
READY_SECONDS = 120.0
"""Long, for a machine that is busy with other tests: starting takes seconds on an idle one."""

STOP_SECONDS = 5.0
TAIL_LINES = 15


class Process:
    """A program that ends with us, whatever ends us: SIGKILL by the kernel (leash.py) when nothing else can.

    Start it from a thread that lives as long as the program should (the main thread).
    """

    def __init__(self, name: str, command: Sequence[object], *, folder: Path) -> None:
        self.name = name
        self.log_file = folder / f"{name}.log"
        self._command = [str(part) for part in command]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        if self._process is None:
            raise NotStarted(f"{self.name} was not started")
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def resident_bytes(self) -> int:
        """Its memory, as the kernel counts it (VmRSS)."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    def start(self) -> None:
        """Start it; its log goes on where it was."""
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_ready(self, ready: Callable[[], bool], within_seconds: float = READY_SECONDS) -> None:
        """Wait until it is ready; raises NotStarted with the end of its log when it is not."""

        def settled() -> bool:
            return not self.alive or ready()

        if until(settled, within_seconds) is None:
            raise NotStarted(f"{self.name} was not ready after {within_seconds:.0f} s{self.tail()}")
        if not self.alive:
            code = self._process.returncode if self._process else None
            raise NotStarted(f"{self.name} ended with {code}{self.tail()}")

    def ask_to_stop(self) -> None:
        """Send SIGTERM, and SIGCONT in case it was frozen."""
        if self.alive:
            self.send(signal.SIGTERM)
            self.send(signal.SIGCONT)

    def stop(self, within_seconds: float = STOP_SECONDS) -> None:
        """End it in good order, by force when it does not end in time. Does nothing when it has ended."""
        self.ask_to_stop()
        if self._process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(within_seconds)
            return
        self.kill()

    def kill(self) -> None:
        """End it as a crash would (its whole group)."""
        if self._process is not None and self.alive:
            self.send(signal.SIGKILL)
            self._process.wait()

    def freeze(self) -> None:
        """Stop it where it is: connections stay open and nothing is answered."""
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self.send(signal.SIGCONT)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def log(self) -> str:
        """What it has said."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def tail(self) -> str:
        """The end of its log, for an error message."""
        lines = self.log().splitlines()[-TAIL_LINES:]
        return f"; the end of {self.log_file}:\n" + "\n".join(f"    {line[:300]}" for line in lines)


def stop_all(processes: Sequence[Process]) -> None:
    """End processes, the last one first; all are asked before one is waited for."""
    for process in reversed(processes):
        process.ask_to_stop()
    for process in reversed(processes):
        process.stop()


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that nothing listens on now; another process may take one: start again."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(sock.getsockname()[1]) for sock in sockets]
