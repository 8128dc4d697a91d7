"""The state directory under everything that goes wrong on a disk."""

import subprocess
import sys
from pathlib import Path

import pytest

from kvtune_api.errors import Corrupt, Unavailable
from kvtune_operator.adapters.files import FileObjects
from kvtune_operator.statedir import StateDir
from tests.fakes.samples import experiment, policy


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
