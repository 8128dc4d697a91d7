"""Run a module as the main program, tied to whoever started it: `python -m kvtune_cli.demo.tied MODULE ...`.

Standard input is a pipe that the starter holds open. When it closes, the starter is gone, however it went,
and this process ends as if asked to (SIGTERM): a demo whose terminal is closed leaves nothing behind.
"""

import os
import runpy
import signal
import sys
import threading


def main() -> None:
    """Watch standard input, then become the module named first."""
    threading.Thread(target=_end_with_the_starter, args=(sys.stdin.fileno(),), daemon=True).start()
    module, *arguments = sys.argv[1:]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _end_with_the_starter(descriptor: int) -> None:
    while os.read(descriptor, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
