"""`kvtune capacity`."""

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from kvtune_cli.exits import ExitCode
from kvtune_cli.main import run

Capture = pytest.CaptureFixture[str]
CONVERSATION = Path(__file__).parents[3] / "shared/traces/mooncake_conversation_trace.jsonl.gz"
SHAPE = ["--model-shape", "layers=32,kv_heads=8,head_dim=128"]
FAST = ["--policies", "LRU,ARC", "--capacities", "5%,20%,100%", "--device", "5%"]


def write_trace(path: Path, rows: Sequence[Sequence[int]]) -> Path:
    """A trace in Mooncake's format, a request a second."""
    lines = [
        {"timestamp": 1000 * r, "input_length": 512 * len(row), "output_length": 5, "hash_ids": list(row)}
        for r, row in enumerate(rows)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Sessions that come back, some more often."""
    rng = random.Random(5)
    rows = []
    for _ in range(300):
        session = int(60 * rng.random() ** 1.5)
        rows.append([0, *range(10 * session + 1, 10 * session + 1 + rng.randint(1, 6))])
    return write_trace(tmp_path / "trace.jsonl", rows)


def told(capsys: Capture) -> str:
    """What was told, without line breaks and frames."""
    return " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_a_budget_may_be_left_out(trace: Path, capsys: Capture) -> None:
    assert run(["capacity", str(trace), *SHAPE, *FAST]) == ExitCode.OK
    assert capsys.readouterr().out.splitlines()[-1].startswith("Without a budget put ")


def test_tables_and_one_sentence_for_a_person(trace: Path, capsys: Capture) -> None:
    assert run(["capacity", str(trace), *SHAPE, "--budget", "5/month", *FAST]) == ExitCode.OK
    out = capsys.readouterr().out
    for title in ("Hit rate, % of prompt tokens", "Tiers below the device", "Published rules of thumb"):
        assert title in out
    last = out.splitlines()[-1]
    assert last.startswith("Within 5 a month ") and "(LRU and ARC within 0.5 point)" in last


def test_the_plan_as_json_as_rows_and_as_plots(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    args = ["--budget", "1TiB", "--json", "-", "--parquet", str(tmp_path / "plan.parquet")]
    args += ["--plots", str(tmp_path / "plots"), "--plot-format", "svg"]
    assert run(["capacity", str(trace), *SHAPE, *FAST, *args]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found["bytes_per_token"] == 131_072 and found["block_tokens"] == 512
    assert found["budget"]["bytes_below_the_device"] == 1024**4
    assert {row["policy"] for row in found["curves"]} == {"LRU", "ARC"}
    assert found["best"]["hit_rate"] >= found["device_alone"]["hit_rate"]
    assert (tmp_path / "plan.parquet").stat().st_size > 0
    assert len(list((tmp_path / "plots").glob("*.svg"))) == 3


def test_a_sample_says_that_it_is_one(trace: Path, capsys: Capture) -> None:
    args = ["--budget", "5", "--sample", "0.5"]
    assert run(["capacity", str(trace), *SHAPE, *FAST, *args]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "Sampled: 50.00% of the blocks, 4 times; ± is the standard error" in out
    assert "±" in out.split("Tiers")[0]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([*SHAPE, "--budget", "0"], "--budget: '0' is not an amount greater than 0"),
        ([*SHAPE, "--budget", "nan"], "--budget: 'nan' is not an amount greater than 0"),
        ([*SHAPE, "--budget", "much"], "--budget: 'much' is neither money (500/month) nor a number of bytes"),
        (["--model-shape", "gpt-9", "--budget", "5"], "--model-shape: 'gpt-9' is neither a part"),
        ([*SHAPE, "--budget", "5", "--price", "host=nan"], "--price: host: 'nan' is not a price >= 0"),
        ([*SHAPE, "--budget", "5", "--speed", "disk=0GB/s"], "--speed: disk: '0GB/s' is not a speed"),
        ([*SHAPE, "--budget", "5", "--prefill", "nan"], "--prefill: nan is not a number of tokens"),
        ([*SHAPE, "--budget", "5", "--policies", "MRU"], "--policies: 'MRU' is not one of"),
        ([*SHAPE, "--budget", "5", "--sample", "0"], "--sample: sample: 0.0 is not within (0, 1]"),
        ([*SHAPE, "--budget", "5", "--device", "1KiB"], "--device: 1 KiB holds no block"),
        ([*SHAPE, "--budget", "5", "--plot-format", "gif"], "--plot-format: 'gif' is not one of png, svg"),
        (["--budget", "5"], "Missing option '--model-shape'"),
    ],
)
def test_a_wrong_option_is_named(trace: Path, args: list[str], says: str, capsys: Capture) -> None:
    assert run(["capacity", str(trace), *args]) == ExitCode.USAGE
    assert says in told(capsys)


def test_a_trace_of_arrivals_alone_has_no_curve(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "azure.csv.gz"
    rows = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n"
    path.write_bytes(gzip.compress(rows.encode()))
    assert run(["capacity", str(path), *SHAPE, "--budget", "5"]) == ExitCode.USAGE
    assert "block ids: no reuse, hit rate, working set or capacity" in told(capsys)


def test_blocks_that_are_not_chained_are_refused(tmp_path: Path, capsys: Capture) -> None:
    path = write_trace(tmp_path / "loose.jsonl", [[1, 2], [3, 2], [3, 2]])
    assert run(["capacity", str(path), *SHAPE, "--budget", "5", "--device", "1"]) == ExitCode.USAGE
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_golden_values_stand_in_a_plan_of_the_conversation_trace(capsys: Capture) -> None:
    if not CONVERSATION.exists():
        pytest.skip("the Mooncake conversation trace is not beside this checkout (../shared/traces)")
    args = ["--policies", "LRU", "--capacities", "18279,73116,100%", "--device", "1828", "--json", "-"]
    assert run(["capacity", str(CONVERSATION), *SHAPE, "--budget", "100", *args]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    rates = [row["hit_rate"] for row in found["curves"]]
    assert rates == pytest.approx([0.054554, 0.293933, 0.385327, 0.398113], abs=5e-7)
