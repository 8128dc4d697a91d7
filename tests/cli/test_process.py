"""The kvtune command as a process: exit codes, signals, and what it does not import."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kvtune_api.codec import dump
from kvtune_cli.exits import ExitCode
from tests.fakes.samples import experiment

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KVTUNE = (sys.executable, "-m", "kvtune_cli")
HEAVY = (
    "aiohttp",
    "fastapi",
    "httpx",
    "kopf",
    "kubernetes",
    "numpy",
    "optuna",
    "prometheus_api_client",
    "prometheus_client",
    "uvicorn",
    "yaml",
)


def kvtune(*args: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*KVTUNE, *map(str, args)], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["up", "--help"],
        ["demo", "--help"],
        ["replay", "--help"],
        ["operator", "--help"],
        ["traffic", "--help"],
    ],
)
def test_help_imports_nothing_heavy(args: list[str]) -> None:
    code = (
        "import sys\nfrom kvtune_cli.main import run\nrun(sys.argv[1:])\n"
        f"sys.stderr.write(' '.join(sorted(set({HEAVY!r}) & set(sys.modules))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=120, check=True
    )

    assert done.stderr == ""


def test_an_invalid_policy_ends_with_3() -> None:
    assert kvtune("validate", "-f", EXAMPLES / "invalid.yaml").returncode == ExitCode.INVALID


def test_a_command_that_does_not_exist_ends_with_2() -> None:
    assert kvtune("frobnicate").returncode == ExitCode.USAGE


def test_no_traceback_reaches_a_user(tmp_path: Path) -> None:
    (tmp_path / "policies").write_text("")

    done = kvtune("status", "--state-dir", tmp_path)

    assert done.returncode == ExitCode.UNAVAILABLE
    assert "Traceback" not in done.stderr
    assert done.stderr == f"kvtune: {tmp_path / 'policies'}: Not a directory\n"


def test_a_reader_that_leaves_early_is_no_traceback() -> None:
    done = subprocess.run(
        f"{sys.executable} -m kvtune_cli validate --json -f {EXAMPLES / 'invalid.yaml'} | head -c 1",
        shell=True,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.OK)]
)
def test_up_stops_in_good_order_on_a_signal(tmp_path: Path, number: signal.Signals, code: ExitCode) -> None:
    (tmp_path / "token").write_text("secret")
    process = start_up(tmp_path)
    assert process.stderr is not None
    told = []
    while "health and metrics on" not in (line := process.stderr.readline()):
        told.append(line)
        assert line, told

    process.send_signal(number)
    rest = process.communicate(timeout=120)[1]

    assert process.returncode == code, rest
    assert "stopping: agents return to their incumbents first" in rest
    assert "Traceback" not in rest
    assert "secret" not in rest + "".join(told)


def test_a_second_up_on_the_same_directory_ends_with_5_and_names_the_first(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    process = start_up(tmp_path)
    assert process.stderr is not None
    while "fencing token" not in process.stderr.readline():
        assert process.poll() is None

    second = start_up(tmp_path)
    told = second.communicate(timeout=120)[1]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)

    assert second.returncode == ExitCode.LOCKED
    assert f"another control plane holds this directory (pid {process.pid} on {os.uname().nodename})" in told


def start_up(state: Path) -> "subprocess.Popen[str]":
    """Start a control plane whose only agent does not exist, with short steps."""
    return subprocess.Popen(
        [
            *KVTUNE,
            "up",
            "-f",
            str(EXAMPLES / "chat.yaml"),
            "--state-dir",
            str(state),
            "--agents",
            "http://127.0.0.1:1,http://127.0.0.1:2",
            "--tick",
            "0.2",
            "--log-level",
            "error",
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def test_a_replay_reads_what_kubectl_prints_from_standard_input() -> None:
    sample = experiment(rows=0)
    printed = dump(replace(sample, status=replace(sample.status, decisions=())), packed=True)
    printed["metadata"] |= {"uid": "uid-1", "ownerReferences": [{"name": "chat"}]}
    text = json.dumps({"kind": "List", "items": [printed]})

    done = subprocess.run(
        [*KVTUNE, "replay", "-"], input=text, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == ExitCode.OK, done.stderr
    assert done.stdout == "-: chat-1: no test block was measured\n0 verdicts equal\n"
