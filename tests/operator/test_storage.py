"""Files are written whole or not at all, and refused with their line when they are damaged."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvtune_api.errors import Corrupt, Unavailable
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.policy import KVCachePolicy
from kvtune_operator.storage import clean, read, read_text, text_of, write, write_text
from tests.fakes.samples import experiment, policy

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "chat-1.json"
    write(path, experiment(rows=8))
    return path


def test_what_is_written_is_read_back(ledger: Path) -> None:
    assert read(KVCacheExperiment, ledger) == experiment(rows=8)


def test_a_file_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert read(KVCachePolicy, tmp_path / "none.json") is None


def test_every_row_of_a_ledger_has_its_own_line(ledger: Path) -> None:
    rows = [line for line in ledger.read_text().splitlines() if '"coin"' in line]

    assert len(rows) == 8
    assert all(json.loads(line.strip().rstrip(",")) for line in rows)


def damage(path: Path, line: int, old: str, new: str) -> None:
    lines = path.read_text().split("\n")
    assert old in lines[line - 1], lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    path.write_text("\n".join(lines))


def line_of_row(path: Path, number: int) -> int:
    lines = path.read_text().splitlines()
    return [index for index, line in enumerate(lines, 1) if '"coin"' in line][number]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"pair": 0', '"pair": ', "Expecting value"),
        ('"pair": 0', '"pair": "zero"', "status.rows[2].pair: 'zero'"),
        ('"epoch": 1', '"epoch": 3', "status.rows[2].epoch"),
        ('"end": ', '"emd": ', "status.rows[2].end: is required"),
        ('"start": 300.0', '"start": NaN', "NaN is not a number"),
        ('"pair": 0', '"pair": 0, "pair": 1', "pair stands twice"),
    ],
)
def test_a_damaged_row_is_refused_by_its_line(ledger: Path, old: str, new: str, says: str) -> None:
    line = line_of_row(ledger, 2)
    damage(ledger, line, old, new)

    with pytest.raises(Corrupt) as refused:
        read(KVCacheExperiment, ledger)

    if "twice" not in says:
        assert f"{ledger} line {line}: " in str(refused.value)
    assert says in str(refused.value)


def test_a_file_cut_off_in_the_middle_is_refused_by_the_last_line(ledger: Path) -> None:
    text = ledger.read_text()
    ledger.write_text(text[: len(text) // 2])
    last = text[: len(text) // 2].count("\n") + 1

    with pytest.raises(Corrupt, match=f"line {last}: "):
        read(KVCacheExperiment, ledger)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "line 1: the file is empty"),
        (b"\n\n", "line 1: the file is empty"),
        (b"\x00" * 400, "line 1: "),
        (b'{\n"a": "\xff"}', "line 2: not UTF-8 text"),
        (b"[1, 2]", "line 1: "),
        (b'{"apiVersion": "kvtune.dev/v9"}', "line 1: apiVersion"),
        (b"[" * 100_000, "line 1: nested too deeply"),
    ],
)
def test_nonsense_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "policy.json"
    path.write_bytes(content)

    with pytest.raises(Corrupt) as refused:
        read(KVCachePolicy, path)

    assert says in str(refused.value)


def test_a_folder_in_place_of_a_file_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="Is a directory"):
        read(KVCachePolicy, tmp_path)


def test_a_file_in_place_of_the_folder_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "experiments").write_text("")

    with pytest.raises(Unavailable, match="Not a directory"):
        write(tmp_path / "experiments" / "chat-1.json", experiment())


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from kvtune_api.errors import Unavailable
from kvtune_operator.storage import write_text
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_text(Path(sys.argv[1]), "x" * 100_000)
except Unavailable as error:
    print(error)
"""


def test_a_disk_that_takes_no_more_leaves_the_old_file_and_no_rubbish(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    write(path, policy())

    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.strip() == f"{path}: File too large"
    assert read(KVCachePolicy, path) == policy()
    assert [item.name for item in tmp_path.iterdir()] == ["policy.json"]


def test_a_device_that_is_full_is_unavailable_with_path_and_cause(tmp_path: Path) -> None:
    (tmp_path / f".policy.json.{os.getpid()}.partial").symlink_to("/dev/full")

    with pytest.raises(Unavailable, match=r"policy\.json: No space left on device"):
        write(tmp_path / "policy.json", policy())

    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
import kvtune_operator.storage as storage
from tests.fakes.samples import policy
os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
storage.write(Path(sys.argv[1]), policy(mode="Observe"))
"""


def test_a_writer_killed_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    write(path, policy())

    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=ROOT, timeout=60, check=False)

    assert done.returncode == -9
    assert read(KVCachePolicy, path) == policy()
    assert len(list(tmp_path.iterdir())) == 2, "the temporary file is left"
    clean(tmp_path)
    assert [item.name for item in tmp_path.iterdir()] == ["policy.json"]


def test_a_name_too_long_for_the_disk_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="File name too long"):
        write_text(tmp_path / ("x" * 256), "")


def test_text_has_no_nan_and_ends_with_a_line_break() -> None:
    text = text_of({"a": [], "b": {"c": [1, {"d": None}]}})

    assert text == '{\n "a": [],\n "b": {\n  "c": [\n   1,\n   {"d": null}\n  ]\n }\n}\n'
    with pytest.raises(ValueError, match="JSON"):
        text_of({"a": float("nan")})


def test_what_is_no_plain_file_is_corrupt_and_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("fifo", "zero", "loop"):
        with pytest.raises(Corrupt, match="is not a plain file"):
            read_text(tmp_path / name)
