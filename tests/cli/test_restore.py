"""`kvtune restore`: one agent by its address, or all of a policy by its control plane."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from kvtune_cli.exits import ExitCode
from kvtune_operator.adapters.files import FileObjects
from kvtune_operator.statedir import StateDir
from kvtune_tuner.model import Verb
from tests.agent.samples import WRITE, push_body
from tests.agent.test_process import running_agent
from tests.cli.command_line import Capture, as_json, kvtune, waiting

ORIGIN = 1_700_000_000
CLOCK = ("--origin", str(ORIGIN), "--speed", "600")


def let_fall_back(client: httpx.Client) -> None:
    """Ask for SIEVE, and serve five minutes of blocks that nobody asked for before."""
    pushed = push_body(role="incumbent", config={"evictionPolicy": "SIEVE"})
    assert client.put("/v1/config", json=pushed, headers=WRITE).status_code == 200
    rows: list[Any] = [
        [ORIGIN + 1 + 2 * i, i, 128 * 20, 10, list(range(i * 100, i * 100 + 20))] for i in range(1, 160)
    ]
    body = {"until": ORIGIN + 325, "requests": rows}
    assert client.post("/v1/replay", json=body, headers=WRITE).status_code == 200
    assert client.get("/v1/report").json()["fallback"]["reason"] == "LowReuse"


def test_an_agent_is_restored_by_its_address(tmp_path: Path, capsys: Capture) -> None:
    with running_agent(tmp_path, *CLOCK) as (_process, client):
        let_fall_back(client)
        url, token = str(client.base_url), ("--token-file", tmp_path / "token")

        assert kvtune("restore", url, *token) == ExitCode.OK
        assert "fallback" not in client.get("/v1/report").json()
        assert kvtune("restore", url, *token) == ExitCode.OK
        assert kvtune("restore", url, *token, "--json") == ExitCode.OK

    *lines, _ = capsys.readouterr().out.split("\n{")
    first, second = lines[0].strip().splitlines()
    assert first.startswith("a1 runs SIEVE again (it ran LRU: LowReuse: reuse rate 0.0")
    assert second == "a1 runs SIEVE, as it was asked to: nothing to restore"


def test_a_wrong_token_and_a_dead_agent_are_one_line(tmp_path: Path, capsys: Capture) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("no")
    with running_agent(tmp_path, *CLOCK) as (_process, client):
        url = str(client.base_url)
        assert kvtune("restore", url, "--token-file", wrong) == ExitCode.UNAVAILABLE
        assert "HTTP 401 Unauthorized" in capsys.readouterr().err
        assert kvtune("restore", url, "--token-file", tmp_path / "none") == ExitCode.UNAVAILABLE
        assert "none: No such file or directory" in capsys.readouterr().err
    assert kvtune("restore", url, "--token-file", wrong) == ExitCode.UNAVAILABLE
    assert "cannot connect" in capsys.readouterr().err


def test_a_policy_is_restored_by_its_control_plane(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    assert kvtune("restore", "chat", "--state-dir", state.path, "--json") == ExitCode.OK

    assert waiting(held) == [(Verb.RESTORE, "")]
    assert as_json(capsys)["verb"] == "restore"


def test_an_unknown_policy_is_refused_with_the_known_ones(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    assert kvtune("restore", "chatt", "--state-dir", state.path) == ExitCode.USAGE

    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "chatt: is neither an address such as http://127.0.0.1:9001 nor a policy" in told
    assert waiting(held) == []


@pytest.mark.parametrize("name", ["chat", "localhost:9001"])
def test_without_a_control_plane_a_policy_is_not_restored(
    state: StateDir, capsys: Capture, name: str
) -> None:
    assert kvtune("restore", name, "--state-dir", state.path) == ExitCode.UNAVAILABLE
    assert "no control plane runs on this directory" in capsys.readouterr().err
