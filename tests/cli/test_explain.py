"""`kvtune explain`."""

import json
from pathlib import Path

import pytest

from kvtune_cli.exits import ExitCode
from kvtune_cli.main import run
from tests.cli.test_capacity import Capture, told, trace, write_trace

__all__ = ["trace"]
FAST = ["--capacities", "5%,20%"]


def test_tables_for_a_person(trace: Path, capsys: Capture) -> None:
    assert run(["explain", str(trace), *FAST]) == ExitCode.OK
    out = capsys.readouterr().out
    for text in (
        "bound, all classes",
        "OPT",
        "Points over LRU",
        "right 90% of the time",
        "What the policy has",
    ):
        assert text in out
    assert "Most is to be gained at " in out


def test_json_and_plots(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    args = ["--hint-accuracies", "0.75,1", "--json", "-", "--plots", str(tmp_path / "plots")]
    assert run(["explain", str(trace), *FAST, *args]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert set(found["policies"]) == {"LRU", "ReuseAware", "OPT"}
    assert [hint["accuracy"] for hint in found["hints"]] == [0.75, 1.0]
    assert found["learned"]["classes"]
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert names == {"explain-knowable.png", "explain-hints.png", "explain-hazard.png"}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--hint-accuracies", "0.4"], "--hint-accuracies: 0.4 is not within [0.5, 1]"),
        (["--hint-accuracies", "nan"], "--hint-accuracies: nan is not within [0.5, 1]"),
        (["--capacities", "0"], "--capacities: 0 is less than 1 block"),
        (["--capacities", "64GiB"], "--capacities: 64 GiB needs the bytes of a token"),
        (["--sample", "2"], "--sample: sample: 2.0 is not within (0, 1]"),
    ],
)
def test_a_wrong_option_is_named(trace: Path, args: list[str], says: str, capsys: Capture) -> None:
    assert run(["explain", str(trace), *args]) == ExitCode.USAGE
    assert says in told(capsys)


def test_an_agent_does_not_tell_of_its_tables_yet(capsys: Capture) -> None:
    assert run(["explain", "http://127.0.0.1:9"]) == ExitCode.USAGE
    assert "an agent does not tell of its policy's tables yet" in told(capsys)


def test_a_trace_in_no_time_is_refused(tmp_path: Path, capsys: Capture) -> None:
    path = write_trace(tmp_path / "one.jsonl", [[1, 2]])
    assert run(["explain", str(path), *FAST]) == ExitCode.USAGE
    assert "its last half begins and ends at 0 s" in told(capsys)
