"""The kvtune command replays ledgers."""

from dataclasses import replace
from pathlib import Path

import pytest

from kvtune_api.experiment import KVCacheExperiment
from kvtune_cli.exits import ExitCode
from kvtune_operator.adapters.files import FileObjects
from kvtune_operator.statedir import StateDir
from kvtune_operator.storage import write
from tests.cli.command_line import Capture, as_json, kvtune
from tests.fakes.samples import experiment


def fresh() -> KVCacheExperiment:
    """An experiment before its first decision: nothing to differ from."""
    sample = experiment(rows=0)
    return replace(sample, status=replace(sample.status, decisions=()))


def test_a_replay_that_agrees_says_so(tmp_path: Path, capsys: Capture) -> None:
    ledger = tmp_path / "chat-1.json"
    write(ledger, fresh())

    assert kvtune("replay", ledger) == ExitCode.OK
    assert capsys.readouterr().out.splitlines()[-1] == "0 verdicts equal"


def test_a_replay_of_a_verdict_that_its_rows_deny_exits_with_1(tmp_path: Path, capsys: Capture) -> None:
    ledger = tmp_path / "chat-1.json"
    sample = experiment(rows=2)
    write(ledger, replace(sample, status=replace(sample.status, noise_objective=0.01)))

    assert kvtune("replay", ledger) == ExitCode.DIFFERENT
    assert "chat-1: " in capsys.readouterr().out
    assert kvtune("replay", ledger, "--json") == ExitCode.DIFFERENT
    told = as_json(capsys)
    assert told["equal"] is False
    assert told["experiments"][0]["differences"]


def test_a_replay_of_a_state_directory(held: FileObjects, state: StateDir, capsys: Capture) -> None:
    kvtune("replay", state.path, "--json")

    assert [item["experiment"] for item in as_json(capsys)["experiments"]] == ["chat-1"]


def test_a_replay_of_a_damaged_ledger_names_the_line(tmp_path: Path, capsys: Capture) -> None:
    ledger = tmp_path / "chat-1.json"
    write(ledger, experiment())
    text = ledger.read_text().splitlines()
    number = next(index for index, line in enumerate(text, 1) if '"coin"' in line)
    text[number - 1] = text[number - 1].replace('"coin": true', '"coin": maybe')
    ledger.write_text("\n".join(text))

    assert kvtune("replay", ledger) == ExitCode.CORRUPT
    assert f"{ledger} line {number}" in capsys.readouterr().err.replace(
        f"line {number + 1}", f"line {number}"
    )


@pytest.mark.parametrize("content", ["none", "folder"])
def test_a_replay_of_what_is_no_ledger_is_a_usage_error(
    tmp_path: Path, capsys: Capture, content: str
) -> None:
    path = tmp_path / content
    if content == "folder":
        path.mkdir()

    assert kvtune("replay", path) == ExitCode.USAGE
