"""`kvtune sweep`."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kvtune_cli.exits import ExitCode
from tests.cli.sweeping import recorded, sweep

Capture = pytest.CaptureFixture[str]
FEW = ("--policies", "LRU,OPT", "--capacities", "2%,20%")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 requests of generated chat."""
    return recorded(tmp_path_factory.mktemp("trace") / "chat.jsonl")


def rows_of(out: str) -> list[dict[str, Any]]:
    """The rows of the JSON that was printed."""
    rows: list[dict[str, Any]] = json.loads(out[out.index("{\n") :])["rows"]
    return rows


def test_tables_for_a_person(trace: Path, capsys: Capture) -> None:
    capsys.readouterr()
    assert sweep(trace, *FEW) == ExitCode.OK
    told = capsys.readouterr()
    assert told.err == ""
    lines = [line.strip() for line in told.out.splitlines()]
    assert lines[0].startswith("Hit rate, % of tokens, last half")
    assert sum(line.startswith("LRU ") for line in lines) == 3, "one line by capacity, two for the rows"
    assert sum(line.startswith("OPT ") for line in lines) == 3


def test_json_holds_every_row_with_its_setup_and_what_was_moved(trace: Path, capsys: Capture) -> None:
    capsys.readouterr()
    args = ("--ttls", "none,5s", "--model-shape", "llama-3.1-8b", "--json", "-")
    assert sweep(trace, *FEW, *args) == ExitCode.OK
    rows = rows_of(capsys.readouterr().out)
    assert [(row["policy"], row["ttl_seconds"]) for row in rows] == [
        ("LRU", None), ("LRU", None), ("LRU", 5.0), ("LRU", 5.0), ("OPT", None), ("OPT", None)
    ]  # fmt: skip
    assert all(0 < row["token_hit_rate"] < 1 for row in rows)
    assert rows[0]["bytes_read"] == rows[0]["hit_tokens"] * 131_072
    assert rows[0]["bytes_written"] == rows[0]["blocks_written"] * 128 * 131_072
    assert rows[-1]["evictions"] is None


def test_a_result_file_saves_the_work_that_is_done(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "sweep.jsonl"
    assert sweep(trace, *FEW, "--out", out) == ExitCode.OK
    before = out.read_text()
    capsys.readouterr()
    assert sweep(trace, *FEW, "--out", out) == ExitCode.OK
    assert out.read_text() == before
    assert capsys.readouterr().err == f"{out}: 4 of 4 rows are there\n"
    assert sweep(trace, "--policies", "LRU,FIFO", "--capacities", "2%", "--out", out, "--json", "-") == 0
    told = capsys.readouterr()
    assert told.err == f"{out}: 1 of 2 rows are there\n"
    assert [row["policy"] for row in rows_of(told.out)] == ["LRU", "FIFO"]
    assert len(out.read_text().splitlines()) == 6


def test_a_result_file_of_another_trace_is_refused(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "sweep.jsonl"
    assert sweep(trace, *FEW, "--out", out) == ExitCode.OK
    other = recorded(tmp_path / "other.jsonl", requests=40)
    capsys.readouterr()
    assert sweep(other, *FEW, "--out", out) == ExitCode.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"kvtune: --out: {out}:1: trace: ")
    assert " is not this trace, " in line


def test_a_damaged_result_file_is_told_with_its_line(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "sweep.jsonl"
    assert sweep(trace, *FEW, "--out", out) == ExitCode.OK
    head, first, *rest = out.read_text().splitlines()
    out.write_text("\n".join([head, first[:-9], *rest]) + "\n")
    capsys.readouterr()
    assert sweep(trace, *FEW, "--out", out) == ExitCode.CORRUPT
    assert capsys.readouterr().err.startswith(f"kvtune: {out}:2: is not a row of a sweep")


def test_rows_as_parquet(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    assert sweep(trace, *FEW, "--parquet", out) == ExitCode.OK
    table = pq.read_table(out).to_pydict()
    assert table["policy"] == ["LRU", "LRU", "OPT", "OPT"]
    assert table["evictions"][2:] == [None, None]
    assert all(type(value) is int for value in table["hit_tokens"])


@pytest.mark.parametrize("form", ["png", "svg"])
def test_plots_are_drawn_of_each_choice_that_has_several_values(
    form: str, trace: Path, tmp_path: Path, capsys: Capture
) -> None:
    capsys.readouterr()
    assert sweep(trace, *FEW, "--ttls", "none,9s", "--plots", tmp_path, "--plot-format", form) == ExitCode.OK
    names = [f"sweep-{name}.{form}" for name in ("hit-rate", "evictions", "ttl")]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    assert capsys.readouterr().err == f"plots: {', '.join(str(tmp_path / name) for name in names)}\n"


def test_a_sweep_of_one_setup_has_no_plot(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    capsys.readouterr()
    assert sweep(trace, "--policies", "LRU", "--capacities", "2%", "--plots", tmp_path) == ExitCode.OK
    assert capsys.readouterr().err == "plots: none, because every choice has one value\n"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--policies", "LRU,MRU"], "--policies: 'MRU' is not one of LRU, FIFO, S3FIFO, SIEVE, ARC, "),
        (["--capacities", "1%,0"], "--capacities: 0 is less than 1 block"),
        (["--capacities", "8GiB"], "--capacities: 8 GiB needs the bytes of a token"),
        (["--capacities", ","], "--capacities: ',' holds no value"),
        (["--ttls", "90"], "--ttls: '90' is not a duration"),
        (["--ttls", "none,nan"], "--ttls: 'nan' is not a duration"),
        (["--ttls", "-1s"], "--ttls: '-1s' is not a duration"),
        (["--eviction-ratios", "0.1,2"], "--eviction-ratios: 2 is not within (0, 1]"),
        (["--eviction-ratios", "nan"], "--eviction-ratios: nan is not within (0, 1]"),
        (["--store-thresholds", "300"], "--store-thresholds: '300' is not a whole number from 1 to 255"),
        (["--jobs", "0"], "--jobs: 0 is less than 1"),
        (["--plot-format", "gif"], "--plot-format: 'gif' is not one of png, svg"),
    ],
)
def test_a_wrong_option_is_told_in_one_line(trace: Path, args: list[str], says: str, capsys: Capture) -> None:
    capsys.readouterr()
    assert sweep(trace, *args) == ExitCode.USAGE
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert line.startswith(f"kvtune: {says}")


@pytest.mark.parametrize("option", ["--out", "--json", "--parquet", "--plots"])
def test_what_cannot_be_written_is_told_before_the_work(
    option: str, trace: Path, tmp_path: Path, capsys: Capture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    capsys.readouterr()
    assert sweep(trace, *FEW, option, blocked / "out") == ExitCode.UNAVAILABLE
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == f"kvtune: {blocked / 'out'}: Not a directory\n"
