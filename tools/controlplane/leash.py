"""Become another program that the kernel ends when its parent ends.

Started as a script: leash.py PARENT-PID PROGRAM ARGUMENTS… The process id stays, no process is added.
PR_SET_PDEATHSIG is kept over exec; it fires when the thread that started the process ends, so start from a
thread that lives as long as the process should.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Set the leash, then become the command; end at once where the parent is gone already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(f"leash: process {parent} is gone")
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
