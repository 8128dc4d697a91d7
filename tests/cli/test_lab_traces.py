"""Traces as the commands take them that serve their requests."""

import json
from pathlib import Path

import pytest

from kvtune_cli.exits import ExitCode
from kvtune_cli.main import run

Capture = pytest.CaptureFixture[str]
COMMANDS = [
    ["simulate", "--capacity", "10"],
    ["sweep", "--policies", "LRU", "--capacities", "10", "--jobs", "1"],
    ["capacity", "--model-shape", "llama-3.1-8b"],
    ["explain"],
]


def recording(folder: Path, blocks: list[list[int]], prompt: int) -> Path:
    path = folder / "trace.jsonl"
    heading = json.dumps({"format": "kvtune-recording/1", "blockTokens": 16})
    rows = [json.dumps({"t": i, "blocks": ids, "prompt": prompt}) for i, ids in enumerate(blocks)]
    path.write_text("\n".join([heading, *rows]) + "\n")
    return path


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_last_half_without_a_token_is_refused(command: list[str], tmp_path: Path, capsys: Capture) -> None:
    path = recording(tmp_path, [[1], [1], [], [], []], 15)
    path.write_text(path.read_text().replace('"blocks": [1], "prompt": 15', '"blocks": [1], "prompt": 16'))
    assert run([command[0], str(path), *command[1:]]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert told == f"kvtune: {path}:1: file: the last half of the requests holds no token: no hit rate\n"


def test_one_bad_row_is_one(tmp_path: Path, capsys: Capture) -> None:
    path = recording(tmp_path, [[1], [1]], 16)
    with path.open("a") as file:
        file.write("{torn")
    assert run(["simulate", str(path), "--capacity", "10", "--skip-bad", "1"]) == ExitCode.OK
    assert "note: 1 bad row left out\n" in capsys.readouterr().err
