"""A state directory has one control plane at a time, and says which."""

import os
import subprocess
import sys

import pytest

from kvtune_api.errors import Corrupt
from kvtune_operator.adapters.files import FileObjects
from kvtune_operator.statedir import Locked, StateDir, experiments, holder, policies

HOLD = """
import asyncio, sys
from pathlib import Path
from kvtune_operator.adapters.files import FileObjects
from kvtune_operator.statedir import StateDir

async def main():
    FileObjects(StateDir(Path(sys.argv[1])))
    print("held", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""


def hold(state: StateDir) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(state.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


async def test_a_second_control_plane_is_refused_and_told_who_holds_the_directory(state: StateDir) -> None:
    process = hold(state)
    try:
        with pytest.raises(Locked) as refused:
            FileObjects(state)

        assert f"pid {process.pid} on " in str(refused.value)
        assert str(state.path) in str(refused.value)
        assert holder(state) is not None
    finally:
        process.kill()
        process.communicate()


async def test_a_killed_control_plane_holds_nothing(state: StateDir) -> None:
    process = hold(state)
    process.kill()
    process.communicate()

    assert holder(state) is None
    FileObjects(state).close()


async def test_a_closed_directory_can_be_held_again(state: StateDir) -> None:
    FileObjects(state).close()

    FileObjects(state).close()

    assert holder(state) is None


async def test_a_refused_start_gives_the_directory_free(state: StateDir) -> None:
    state.create()
    state.policy_file("chat").write_text("{")

    with pytest.raises(Corrupt):
        FileObjects(state)

    assert holder(state) is None


async def test_the_status_is_readable_without_the_lock(state: StateDir) -> None:
    process = hold(state)
    try:
        assert policies(state) == ()
    finally:
        process.kill()
        process.communicate()


def test_a_directory_that_does_not_exist_holds_nothing(state: StateDir) -> None:
    assert policies(state) == ()
    assert experiments(state) == ()
    assert holder(state) is None


def test_a_damaged_lock_file_does_not_hide_that_it_is_held(state: StateDir) -> None:
    process = hold(state)
    try:
        os.truncate(state.lock_file, 0)

        assert holder(state) == "it has not said who it is"
    finally:
        process.kill()
        process.communicate()
