"""`kvtune trace stats`."""

import json
from io import StringIO
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it has no types
import pytest
from rich.console import Console

from kvtune_cli.exits import ExitCode
from kvtune_cli.trace_text import class_table, demand_table, law_table
from kvtune_lab.stats.arrivals import Spikes
from kvtune_lab.stats.demand import Demand
from kvtune_lab.stats.intervals import Fit, Intervals, Law
from kvtune_lab.stats.report import ClassStats
from kvtune_lab.stats.skew import Skew
from kvtune_lab.stats.working_set import WorkingSet
from tests.cli.command_line import as_json, kvtune

Capture = pytest.CaptureFixture[str]
PNG, SVG = b"\x89PNG", b"<?xml"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:{17 + i}:03.9799600,{100 + i},10\n" for i in range(9)
)
SERVEGEN = "category,model,client,t_s,rate_rps,cv,dist,param1,param2\n" + "".join(
    f"l,m,{i % 3},{600 * i},{1 + i},2,Gamma,1,1\n" for i in range(9)
)


def row(at_ms: float, blocks: list[int]) -> dict[str, object]:
    return {
        "timestamp": at_ms,
        "input_length": 512 * len(blocks),
        "output_length": 5,
        "hash_ids": blocks,
    }


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Fifty conversations of two turns each, 7 to 56 s apart."""
    rows = []
    for i in range(50):
        chain = [0, *range(10 * i + 1, 10 * i + 5)]
        rows += [row(4000 * i, chain[:3]), row(4000 * i + 7000 + 1000 * i, chain)]
    path = tmp_path / "trace.jsonl"
    path.write_text(
        "".join(json.dumps(r) + "\n" for r in sorted(rows, key=lambda r: str(r["timestamp"]).zfill(9)))
    )
    return path


def test_tables_for_a_person(trace: Path, capsys: Capture) -> None:
    assert kvtune("trace", "stats", trace) == ExitCode.OK
    told = capsys.readouterr()
    assert "By class, rates in %" in told.out
    assert "turn 2" in told.out
    assert "Laws of the time until a block is touched again" in told.out
    for line in ("infinite cache", "user skew", "working set, 10.0 min", "index of dispersion"):
        assert line in told.out
    assert "% of block-seconds, under a TTL of 5.0 min" in told.out
    assert "note: the trace does not tell of sessions, turns and request types" in told.err


def test_tables_keep_every_column_in_80_columns() -> None:
    intervals = Intervals(
        count=1_526_833,
        mean_seconds=707.9,
        median_seconds=211.3,
        p90_seconds=1686.0,
        fits=tuple(
            Fit(law=law, shape=0.888, scale_seconds=1247.8, ks_distance=0.109) for law in reversed(Law)
        ),
    )
    stats = ClassStats(
        name="sub-agent: tool_use",
        requests=10_708,
        references=26_237_769,
        tokens=1,
        ideal_reuse=0.979,
        prefix_match_rate=0.953,
        intervals=intervals,
        wasted_share=0.744,
        demand=Demand(
            skew=Skew(users=107_373, reusing_users=9, users_share_of_reuse=0.521, inferred=True),
            working_set=WorkingSet(
                distinct_blocks=1_191_186,
                window_seconds=600,
                windows=9,
                mean_blocks=335_755,
                p95_blocks=336_527,
                peak_blocks=347_325,
                bytes_per_block=None,
            ),
            spikes=Spikes(
                bin_seconds=60,
                bins=9,
                mean_per_bin=1_203.9,
                peak_per_bin=12_247,
                peak_over_mean=1.2,
                peak_at_seconds=60,
                index_of_dispersion=132.89,
                gap_variation=None,
            ),
        ),
    )
    tables = ((class_table, "74.4"), (law_table, "0.109"), (demand_table, "132.89"))
    for table, last in ((make([stats]), last) for make, last in tables):
        console = Console(width=80, file=StringIO(), record=True)
        console.print(table)
        line = next(line for line in console.export_text().splitlines() if line.startswith("sub-agent"))
        assert line.rstrip().endswith(last)
        assert "…" not in line


def test_all_of_it_as_json(trace: Path, capsys: Capture) -> None:
    assert kvtune("trace", "stats", trace, "--json", "-", "--bytes-per-token", 2048) == ExitCode.OK
    found = as_json(capsys)
    assert found["format"] == "mooncake"
    assert found["whole"]["requests"] == 100
    assert found["whole"]["references"] == 400
    assert found["whole"]["demand"]["working_set"]["bytes_per_block"] == 1 << 20
    assert found["whole"]["demand"]["working_set"]["distinct_gib"] == pytest.approx(201 / 1024)
    assert [each["name"] for each in found["classes"]] == ["turn 1", "turn 2"]
    assert found["classes"][1]["prefix_match_rate"] == pytest.approx(0.6)
    assert found["whole"]["demand"]["skew"] == {
        "users": 50,
        "reusing_users": 50,
        "users_share_of_reuse": pytest.approx(0.9, abs=0.03),
        "inferred": True,
    }
    assert found["residency_ttl_seconds"] == 300


def test_residency_against_an_lru_of_a_size(trace: Path, capsys: Capture) -> None:
    assert kvtune("trace", "stats", trace, "--lru", "10%") == ExitCode.OK
    assert "under an LRU of 20 blocks (as a TTL of" in capsys.readouterr().out


@pytest.mark.parametrize(("suffix", "magic"), [("png", PNG), ("svg", SVG)])
def test_plots_and_parquet(suffix: str, magic: bytes, trace: Path, tmp_path: Path, capsys: Capture) -> None:
    plots, table = tmp_path / "plots", tmp_path / "t.parquet"
    args = ("--plots", plots, "--plot-format", suffix, "--parquet", table, "--model-shape", "llama-3.1-8b")
    assert kvtune("trace", "stats", trace, *args) == ExitCode.OK
    names = ["arrivals", "classes", "reuse-intervals", "users", "working-set"]
    assert sorted(path.name for path in plots.iterdir()) == [f"trace-{name}.{suffix}" for name in names]
    assert all(path.read_bytes().startswith(magic) for path in plots.iterdir())
    rows = pq.read_table(table).to_pylist()
    assert [each["class"] for each in rows] == ["all", "turn 1", "turn 2"]
    assert rows[0]["tokens"] == 400 * 512
    assert rows[0]["lognormal_ks"] > 0
    assert "plots: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "requests", "plots"),
    [(AZURE, 9, {"trace-arrivals.png"}), (SERVEGEN, 27_000, {"trace-arrivals.png", "trace-users.png"})],
    ids=["azure", "servegen"],
)
def test_arrivals_alone_are_told_with_what_is_not(
    text: str, requests: int, plots: set[str], tmp_path: Path, capsys: Capture
) -> None:
    path, data = tmp_path / "t.csv", tmp_path / "t.json"
    path.write_text(text)
    args = ("--plots", tmp_path / "p", "--parquet", tmp_path / "t.parquet", "--json", data)
    assert kvtune("trace", "stats", path, *args) == ExitCode.OK
    told = capsys.readouterr()
    assert "no blocks" in told.out
    assert "note: the trace does not tell of block ids: no reuse, hit rate, working set" in told.err
    assert json.loads(data.read_text())["requests"] == requests
    assert {each.name for each in (tmp_path / "p").iterdir()} == plots
    assert pq.read_table(tmp_path / "t.parquet").num_rows == 1


def test_a_trace_without_any_reuse_is_told_without_laws(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "t"
    path.write_text(json.dumps(row(0, [1])) + "\n")
    assert kvtune("trace", "stats", path, "--plots", tmp_path / "p") == ExitCode.OK
    assert "1 sessions (inferred from prefixes), no reused tokens" in capsys.readouterr().out
    assert {each.name for each in (tmp_path / "p").iterdir()} == {
        "trace-arrivals.png",
        "trace-classes.png",
        "trace-working-set.png",
    }


def test_a_bad_row_is_one_line_with_file_line_field_and_value(trace: Path, capsys: Capture) -> None:
    trace.write_text(trace.read_text() + '{"timestamp": -4}\n')
    assert kvtune("trace", "stats", trace) == ExitCode.USAGE
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == f"kvtune: {trace}:101: timestamp: -4 is not a number of milliseconds >= 0\n"


def test_bad_rows_are_skipped_and_counted(trace: Path, capsys: Capture) -> None:
    trace.write_text(trace.read_text() + '{"timestamp": -4}\n{\n')
    assert kvtune("trace", "stats", trace, "--skip-bad", 1) == ExitCode.USAGE
    assert "(bad row 2, where 1 may be skipped)" in capsys.readouterr().err
    assert kvtune("trace", "stats", trace, "--skip-bad", 2, "--json", "-") == ExitCode.OK
    told = capsys.readouterr()
    assert "note: 2 bad rows left out" in told.err
    assert json.loads(told.out)["skipped"] == 2


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--ttl", "0s"], "kvtune: --ttl: 0s is not greater than 0"),
        (["--ttl", "soon"], "kvtune: --ttl: "),
        (["--window", "0s"], "kvtune: --window: 0s is not greater than 0"),
        (["--lru", "x"], "kvtune: --lru: "),
        (["--lru", "10%", "--ttl", "5m"], "kvtune: --ttl: give this or --lru, not both"),
        (["--lru", "1GiB"], "kvtune: --lru: "),
        (["--plot-format", "gif"], "kvtune: --plot-format: 'gif' is not one of png, svg"),
        (["--bytes-per-token", "0"], "kvtune: --bytes-per-token: 0 is less than 1"),
    ],
)
def test_a_wrong_option_is_one_line(args: list[str], says: str, trace: Path, capsys: Capture) -> None:
    assert kvtune("trace", "stats", trace, *args) == ExitCode.USAGE
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("note:")]
    assert len(lines) == 1
    assert lines[0].startswith(says)


def test_what_is_not_there_or_cannot_be_written_is_unavailable(
    trace: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert kvtune("trace", "stats", tmp_path / "none") == ExitCode.UNAVAILABLE
    assert capsys.readouterr().err == f"kvtune: {tmp_path / 'none'}: No such file or directory\n"
    assert kvtune("trace", "stats", trace, "--plots", trace) == ExitCode.UNAVAILABLE
    assert f"kvtune: {trace}: File exists" in capsys.readouterr().err


def test_rates_of_0_have_no_peak(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "rates.csv"
    path.write_text(SERVEGEN.partition("\n")[0] + "\nl,m,0,0,0,2,Gamma,1,1\n")
    assert kvtune("trace", "stats", path, "--plots", tmp_path / "plots", "--json", "-") == ExitCode.OK
    told = capsys.readouterr()
    assert json.loads(told.out)["spikes"] is None
    assert "plots: none" in told.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "".join(json.dumps(row(at, [1])) + "\n" for at in (0, 1.7e12)),
            "spans 1.7e+09 s, more than 5,000,000",
        ),
        (AZURE + "9999-01-01 00:00:00,1,1\n", "spans 2.5"),
    ],
    ids=["epoch behind 0", "year 9999"],
)
def test_a_span_of_centuries_is_refused(text: str, says: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    assert kvtune("trace", "stats", path, "--plots", tmp_path / "plots") == ExitCode.USAGE
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"kvtune: {path}: {says}")
    assert last.endswith("windows of 60 s")
