"""Files are written whole or not at all."""

import os
import threading
from pathlib import Path

import pytest

from kvtune_lab.whole_files import check_writable, replacing


def write(target: Path, text: str) -> None:
    with replacing(target) as file:
        file.write(text[:4].encode())
        file.write(text[4:].encode())


def test_a_file_is_there_once_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with replacing(target) as file:
        file.write(b"new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("old")
    target.chmod(0o640)
    with pytest.raises(UnicodeEncodeError):
        write(target, "half of the new \ud800")
    assert (target.read_text(), list(tmp_path.iterdir())) == ("old", [target])
    write(target, "new")
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o640)


def test_a_link_still_leads_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link, real = tmp_path / "link", tmp_path / "there/file"
    link.symlink_to(real)
    write(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"


def test_devices_and_pipes_are_written_as_they_are(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_writable(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write(pipe, "new")
    reader.join()
    assert got == ["new"]
    assert pipe.is_fifo()
    check_writable(Path("/dev/null"))
    write(Path("/dev/null"), "new")
    with pytest.raises(OSError, match="No space left"):
        write(Path("/dev/full"), "new")
    assert not Path("/dev/null").is_file()
    assert Path("/dev/full").exists()


@pytest.mark.parametrize("name", ["none/out", "file/out", "."])
def test_what_cannot_be_written_is_found_out_and_nothing_is_left(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"No such file|Not a directory|Is a directory"):
        check_writable(tmp_path / name)
    check_writable(tmp_path / "new")
    check_writable(tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
