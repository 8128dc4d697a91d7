"""The bar that commands show: on a terminal alone, gone at the end."""

import os
import pty
import subprocess
import sys

CODE = """
import sys
from kvtune_cli.progress import late_bar, progress_bar
with progress_bar("sweep", 4) as advance:
    advance(1)
    advance(3, 4)
with late_bar("reading", 1.0) as advance:
    advance(0.5)
print("rich" in sys.modules)
"""


def test_nothing_is_shown_or_imported_where_stderr_is_no_terminal() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_a_terminal_sees_what_is_done_and_by_how_much() -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        stdout=subprocess.PIPE,
        stderr=theirs,
        check=True,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert done.stdout == b"True\n"
    assert "sweep" in shown and "75%" in shown
    assert "reading" not in shown, "it was short"
