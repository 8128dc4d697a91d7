"""Ctrl-C while the command is being loaded."""

import subprocess
import sys

import pytest

from kvtune_cli import __main__ as start
from kvtune_cli.exits import ExitCode

LOADING = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
sys.argv = ["kvtune", "status"]
from kvtune_cli.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "kvtune_cli.status"])
def test_ctrl_c_while_modules_are_loaded_ends_without_a_traceback(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADING.format(module=module)], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.INTERRUPTED, "", "")


def test_the_exit_code_is_that_of_every_interruption() -> None:
    assert start.INTERRUPTED == ExitCode.INTERRUPTED
