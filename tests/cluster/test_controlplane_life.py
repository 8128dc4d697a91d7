"""Control planes begin and end: nothing is left behind, whoever dies."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.processes import Running, processes_with, until
from tools.controlplane.access import Access
from tools.controlplane.binaries import ROOT
from tools.controlplane.errors import NotStarted
from tools.controlplane.plane import ControlPlane

PARTS = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}


def _nothing_runs(folder: Path) -> None:
    until(
        lambda: not processes_with(str(folder)),
        f"nothing of {folder} runs",
        lambda: processes_with(str(folder)),
    )


async def test_objects_outlive_a_crash_of_the_api_server_and_an_end_leaves_no_process(
    tmp_path: Path, binaries: Path
) -> None:
    async with ControlPlane(
        tmp_path / "plane", controllers=False, scheduler=False, binaries=binaries
    ) as plane:
        plane.access.call("POST", "/api/v1/namespaces", {"metadata": {"name": "kept"}})
        server = plane.processes["kube-apiserver"]
        server.kill()
        assert not plane.access.reads("/readyz")
        server.start()
        server.wait_ready(lambda: plane.access.reads("/readyz"))

        assert plane.access.reads("/api/v1/namespaces/kept")
        assert set(plane.processes) == {"etcd", "kube-apiserver"}
        assert len(processes_with(str(tmp_path / "plane"))) == 2
    assert processes_with(str(tmp_path)) == []


def test_a_killed_command_leaves_no_process(tmp_path: Path, binaries: Path) -> None:
    up = Running(tmp_path, "up", "tools.controlplane", "up", "--folder", tmp_path / "plane")
    try:
        line = up.until_said("export KUBECONFIG=")
        assert f"KUBECONFIG={tmp_path}/plane/admin.kubeconfig PATH=" in line
        until(lambda: _running(tmp_path / "plane") >= PARTS, "every part runs")
        up.kill_9()
        _nothing_runs(tmp_path / "plane")
    finally:
        up.clean_up()


def test_ctrl_c_ends_the_command_in_good_order(tmp_path: Path, binaries: Path) -> None:
    up = Running(tmp_path, "up", "tools.controlplane", "up", "--folder", tmp_path / "plane")
    try:
        up.until_said("export KUBECONFIG=")
        assert up.stop(signal.SIGINT) == 0
        assert processes_with(str(tmp_path / "plane")) == []
    finally:
        up.clean_up()


def test_a_shared_control_plane_lives_as_long_as_its_last_user(tmp_path: Path, binaries: Path) -> None:
    shared = tmp_path / "shared"
    one, two = users = [_user(shared), _user(shared)]
    try:
        url_of_one, url_of_two = _first_line(one), _first_line(two)
        assert url_of_one == url_of_two != ""
        one.kill()
        one.wait()
        three = _user(shared)
        users.append(three)
        assert _first_line(three) == url_of_one, "a user that dies takes nothing from the others"
    finally:
        for user in users:
            user.kill()
            user.wait()
    _nothing_runs(shared)


def test_a_control_plane_that_cannot_start_says_which_part_and_why(tmp_path: Path) -> None:
    binaries = tmp_path / "binaries"
    binaries.mkdir()
    for name in PARTS:
        (binaries / name).write_text("#!/bin/sh\necho cannot do this >&2\nexit 7\n")
        (binaries / name).chmod(0o755)

    with (
        pytest.raises(NotStarted, match=r"(?s)(etcd|kube-apiserver) ended with 7.*cannot do this"),
        ControlPlane(tmp_path / "plane", controllers=False, scheduler=False, binaries=binaries),
    ):
        pytest.fail("it started")


def test_requests_of_clients_are_audited(control_plane: Access, namespace: str) -> None:
    token = control_plane.token_for("default", namespace)
    control_plane.reads(f"/api/v1/namespaces/{namespace}/configmaps")
    lines = [line for line in control_plane.audit_file.read_text().splitlines() if namespace in line]

    assert token
    assert any('"verb":"list"' in line and '"resource":"configmaps"' in line for line in lines)


def _running(folder: Path) -> set[str]:
    """Names of the programs that run on a control plane's folder."""
    return {line.split()[0].rpartition("/")[2] for line in processes_with(str(folder))}


def _user(folder: Path) -> "subprocess.Popen[str]":
    code = (
        "import pathlib, signal, sys; from tools.controlplane.share import shared_control_plane as shared\n"
        "with shared(pathlib.Path(sys.argv[1])) as access: print(access.url, flush=True); signal.pause()"
    )
    return subprocess.Popen([sys.executable, "-c", code, folder], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def _first_line(user: "subprocess.Popen[str]") -> str:
    assert user.stdout is not None
    with user.stdout as pipe:
        return pipe.readline().strip()
