"""A state directory that is full or read-only, at the start of `kvtune up` and while it runs."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import NewPlane
from tests.e2e.fleet import Fleet, Plane
from tests.e2e.processes import until


class SmallDisk:
    """A file system of a few megabytes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        """Leave no space."""
        with self._filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return

    def empty(self) -> None:
        """Give the space back."""
        self._filler.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A small disk; only root may mount one."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(path)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"a small file system cannot be mounted here: {error}")
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def on(disk: SmallDisk, plane: Plane) -> Plane:
    """The same control plane with its state on a disk."""
    plane.path = disk.path / "state"
    return plane


def test_a_read_only_state_directory_is_one_clear_sentence(disk: SmallDisk, new_plane: NewPlane) -> None:
    plane = on(disk, new_plane())
    subprocess.run(["mount", "-o", "remount,ro", str(disk.path)], check=True)

    up = plane.start_only()

    assert up.code() == 4
    assert f"kvtune: {plane.path}: Read-only file system" in up.err


def test_a_full_disk_at_the_start_is_one_clear_sentence(disk: SmallDisk, new_plane: NewPlane) -> None:
    plane = on(disk, new_plane())
    disk.fill()

    up = plane.start_only()

    assert up.code() == 4
    assert "No space left on device" in up.err
    assert str(plane.path) in up.err


def test_a_disk_that_fills_up_ends_the_candidate_and_a_free_one_goes_on(
    fleet: Fleet, disk: SmallDisk, new_plane: NewPlane
) -> None:
    plane = on(disk, new_plane())
    plane.start()
    running = plane.until_exposed()

    disk.fill()
    plane.up.until_said("No space left on device")
    until(fleet.at_home, "leases of a state that cannot be written end", plane.describe)
    assert plane.up.alive

    disk.empty()
    assert plane.until_ended(running.metadata.name).status.reason is not None
    assert plane.up.stop() == 0
