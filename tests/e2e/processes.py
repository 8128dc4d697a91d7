"""Commands as a user types them: real processes, their output in files, none left behind.

Deadlines only say when to give up on a hang; nothing is asserted about speed.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

GIVE_UP_SECONDS = 240.0
LOOK_SECONDS = 0.1
KVTUNE = "kvtune_cli"
LAB = "kvtune_lab"
ENVIRONMENT = {
    **os.environ,
    "PYTHONUNBUFFERED": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "COLUMNS": "200",
}


class Running:
    """One process with its standard output and standard error in files of their own."""

    def __init__(self, folder: Path, name: str, module: str, *args: object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        with self._out.open("ab") as out, self._err.open("ab") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, args)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=ENVIRONMENT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def out(self) -> str:
        """What it has printed."""
        return self._out.read_text(errors="replace")

    @property
    def err(self) -> str:
        """What it has said beside that."""
        return self._err.read_text(errors="replace")

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def until_said(self, part: str) -> str:
        """Wait for a line that holds `part`, on either stream; fail when the process ends before."""

        def found() -> str | None:
            ended = not self.alive
            lines = [line for line in (self.out + self.err).splitlines() if part in line]
            if not lines and ended:
                raise AssertionError(f"{self.name} ended with {self.process.returncode}: {self.err[-2000:]}")
            return lines[0] if lines else None

        return until(found, f"{self.name} says {part!r}", lambda: self.err[-1000:])

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def kill_9(self) -> None:
        """End it as a crash would, and wait until it is gone."""
        self.process.kill()
        self.process.wait(GIVE_UP_SECONDS)

    def code(self) -> int:
        """Wait for its end; its exit code. Fails when it has shown a traceback."""
        code = self.process.wait(GIVE_UP_SECONDS)
        self.check_no_traceback()
        return code

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end in good order; its exit code."""
        if self.alive:
            self.send(number)
        return self.code()

    def clean_up(self) -> None:
        """Leave nothing running, whatever the test has come to."""
        if self.alive:
            self.process.kill()
            self.process.wait(GIVE_UP_SECONDS)

    def check_no_traceback(self) -> None:
        """Fail when a traceback has reached the user."""
        text = self.out + self.err
        assert "Traceback" not in text, f"{self.name}: {text[text.index('Traceback') :][:3000]}"


def kvtune(*args: object) -> "subprocess.CompletedProcess[str]":
    """Run one `kvtune` command to its end; no traceback may reach the user."""
    done = subprocess.run(
        [sys.executable, "-m", KVTUNE, *map(str, args)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=GIVE_UP_SECONDS,
        check=False,
        env=ENVIRONMENT,
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


def until(ask: Callable[[], T | None], what: str, context: Callable[[], object] = lambda: "") -> T:
    """Ask again and again until there is an answer (neither None nor False); give up after a long time."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while True:
        answer = ask()
        if answer is not None and answer is not False:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"gave up waiting until {what}: {context()}")
        time.sleep(LOOK_SECONDS)


def processes_with(part: str) -> Sequence[str]:
    """Command lines of live processes that hold `part`, such as a test's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if part in line and state != "Z":
            found.append(line)
    return found
