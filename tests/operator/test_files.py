"""The state directory under everything that goes wrong on a disk."""

import json
import logging
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from kvtune_api.errors import Corrupt, Unavailable
from kvtune_operator.adapters.files import FileObjects
from kvtune_operator.statedir import (
    Locked,
    StateDir,
    Wish,
    experiments,
    holder,
    keep_token,
    leave,
    policies,
    previous_token,
)
from kvtune_tuner.model import Verb
from tests.fakes.clock import ORIGIN
from tests.fakes.samples import experiment, policy

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


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


async def test_a_damaged_policy_stops_the_start_with_its_line(state: StateDir) -> None:
    objects = FileObjects(state)
    await objects.apply_policy(policy())
    objects.close()
    path = state.policy_file("chat")
    lines = path.read_text().splitlines()
    number = next(index for index, line in enumerate(lines, 1) if '"limit"' in line)
    path.write_text("\n".join(lines).replace('"250ms"', '"fast"'))

    with pytest.raises(Corrupt, match=rf"{path} line {number}: spec\.targets\.ttft\.limit"):
        FileObjects(state)


async def test_a_damaged_experiment_stops_the_start_with_its_line(state: StateDir) -> None:
    objects = FileObjects(state)
    await objects.put_experiment(experiment())
    objects.close()
    path = state.experiment_file("chat-1")
    path.write_text(path.read_text().replace('"prompt_tokens"', '"x"').replace('"promptTokens"', '"x"', 1))

    with pytest.raises(Corrupt, match=rf"{path} line \d+: status\.rows\[0\]"):
        FileObjects(state)


async def test_a_file_damaged_while_running_is_corrupt_and_never_guessed(state: StateDir) -> None:
    objects = FileObjects(state)
    await objects.apply_policy(policy())
    state.policy_file("chat").write_text("{")

    with pytest.raises(Corrupt, match="line 1"):
        await objects.policy("chat")
    objects.close()


async def test_rubbish_of_killed_writers_is_removed_at_the_start(state: StateDir) -> None:
    state.create()
    rubbish = state.experiments / ".chat-1.json.123.partial"
    rubbish.write_text("{")

    FileObjects(state).close()

    assert not rubbish.exists()


async def test_a_file_in_place_of_the_directory_is_told(state: StateDir) -> None:
    state.path.write_text("")

    with pytest.raises(Unavailable, match=f"{state.path}"):
        FileObjects(state)


READ_ONLY = """
import os, sys
from pathlib import Path
from kvtune_api.errors import Unavailable
from kvtune_operator.adapters.files import FileObjects
from kvtune_operator.statedir import StateDir
if os.geteuid() == 0:
    os.setegid(65534); os.seteuid(65534)
try:
    FileObjects(StateDir(Path(sys.argv[1])))
except Unavailable as error:
    print(error)
"""


def test_a_read_only_directory_is_told_at_the_start(tmp_path: Path) -> None:
    closed = [path for path in (tmp_path, *tmp_path.parents) if not path.stat().st_mode & 0o001]
    above = {path: path.stat().st_mode for path in closed}
    for folder in above:
        folder.chmod(0o755)  # others may come this far, so that the directory itself refuses
    state = StateDir(tmp_path / "state")
    state.create()
    state.lock_file.write_text("")
    state.lock_file.chmod(0o444)
    state.path.chmod(0o555)

    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(state.path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    for folder, mode in {**above, state.path: 0o755}.items():
        folder.chmod(mode)

    assert done.stdout.strip() == f"{state.lock_file}: Permission denied"


async def test_a_folder_that_vanishes_while_running_is_unavailable(state: StateDir) -> None:
    objects = FileObjects(state)
    stored = await objects.put_experiment(experiment())
    for path in state.experiments.iterdir():
        path.unlink()
    state.experiments.rmdir()
    state.experiments.write_text("")

    with pytest.raises(Unavailable, match="Not a directory"):
        await objects.put_experiment(stored)
    objects.close()


async def test_only_the_newest_experiments_are_kept(state: StateDir) -> None:
    objects = FileObjects(state, history_limit=3)
    for number in range(1, 6):
        await objects.put_experiment(experiment(f"chat-{number}", number=number))

    assert await objects.experiments("chat") == ("chat-3", "chat-4", "chat-5")
    assert sorted(path.stem for path in state.experiments.iterdir()) == ["chat-3", "chat-4", "chat-5"]
    objects.close()


async def test_experiments_are_found_again_after_a_restart(state: StateDir) -> None:
    objects = FileObjects(state)
    for number in (9, 10):
        await objects.put_experiment(experiment(f"chat-{number}", number=number))
    objects.close()

    again = FileObjects(state)

    assert await again.experiments("chat") == ("chat-9", "chat-10")
    assert [item.metadata.name for item in experiments(state)] == ["chat-9", "chat-10"]
    again.close()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("1.json", b""),
        ("2.json", b"{"),
        ("3.json", b'{"verb": "destroy"}'),
        ("4.json", b'{"verb": "abort", "force": true}'),
        ("5.txt", b"abort"),
        ("6.json", b"\xff\xfe"),
    ],
)
async def test_an_unreadable_command_is_set_aside_with_the_reason_and_hides_no_other(
    state: StateDir, caplog: pytest.LogCaptureFixture, name: str, content: bytes
) -> None:
    objects = FileObjects(state)
    (state.inbox / name).write_bytes(content)
    leave(state, Wish(verb=Verb.PAUSE), unix_milliseconds=5)

    with caplog.at_level(logging.WARNING):
        commands = await objects.commands("chat")

    assert [command.verb for command in commands] == [Verb.PAUSE]
    assert (state.bad / name).read_bytes() == content
    assert "line 1" in (state.bad / f"{name}.reason").read_text()
    assert "unreadable command set aside" in caplog.text
    assert [command.verb for command in await objects.commands("chat")] == [Verb.PAUSE]
    objects.close()


async def test_a_command_for_another_policy_is_left_alone(state: StateDir) -> None:
    objects = FileObjects(state)
    leave(state, Wish(verb=Verb.PAUSE, policy="code"), unix_milliseconds=5)

    assert await objects.commands("chat") == ()
    assert len(await objects.commands("code")) == 1
    objects.close()


async def test_half_a_command_is_not_seen(state: StateDir) -> None:
    objects = FileObjects(state)
    (state.inbox / ".1.json.99.partial").write_text('{"verb"')

    assert await objects.commands("chat") == ()
    objects.close()


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


def test_a_token_is_kept_over_restarts_and_a_damaged_one_is_refused(state: StateDir) -> None:
    state.create()
    assert previous_token(state) == 0

    keep_token(state, 77)

    assert previous_token(state) == 77
    state.fence.write_text(json.dumps({"token": "many"}))
    with pytest.raises(Corrupt, match=r"fence\.json line 1: token"):
        previous_token(state)


def test_a_damaged_lock_file_does_not_hide_that_it_is_held(state: StateDir) -> None:
    process = hold(state)
    try:
        os.truncate(state.lock_file, 0)

        assert holder(state) == "it has not said who it is"
    finally:
        process.kill()
        process.communicate()


async def test_a_withdrawn_policy_is_marked_once_and_wanted_again_when_it_is_applied(state: StateDir) -> None:
    objects = FileObjects(state)
    first = await objects.apply_policy(policy())
    await objects.withdraw_policy("chat", ORIGIN)
    await objects.withdraw_policy("chat", ORIGIN + timedelta(seconds=9))
    marked = await objects.policy("chat")
    again = await objects.apply_policy(policy())
    edited = await objects.apply_policy(policy(paused=True))
    objects.close()

    assert marked is not None and marked.metadata.deletion_timestamp == ORIGIN.isoformat()
    assert again.metadata.deletion_timestamp is None
    assert (again.metadata.uid, again.metadata.generation) == (first.metadata.uid, 1)
    assert edited.metadata.generation == 2


async def test_a_withdrawn_policy_that_is_edited_is_wanted_again(state: StateDir) -> None:
    objects = FileObjects(state)
    await objects.apply_policy(policy())
    await objects.withdraw_policy("chat", ORIGIN)
    edited = await objects.apply_policy(policy(paused=True))
    await objects.withdraw_policy("none", ORIGIN)
    objects.close()

    assert edited.metadata.deletion_timestamp is None
