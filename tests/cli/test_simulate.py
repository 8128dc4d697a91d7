"""`kvtune simulate`."""

import json
from pathlib import Path

import pytest

from kvtune_cli.exits import ExitCode
from kvtune_cli.main import run

WEIGHTS = ["--capacity", "9", "--policy", "WorkloadAware", "--weights"]
Capture = pytest.CaptureFixture[str]
CONVERSATION = Path(__file__).parents[3] / "shared/traces/mooncake_conversation_trace.jsonl.gz"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Three requests, the last of which asks for what the first two did."""
    rows = [
        {"timestamp": at, "input_length": 1000, "output_length": 5, "hash_ids": ids}
        for at, ids in ((0, [0, 1]), (1000, [0, 2]), (2000, [0, 1]))
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_result_for_a_person(trace: Path, capsys: Capture) -> None:
    assert run(["simulate", str(trace), "--capacity", "3"]) == ExitCode.OK
    assert capsys.readouterr().out.splitlines() == [
        "3 requests, 6 blocks, 3 distinct",
        "ReuseAware with 3 blocks (100.0 % of those)",
        "hit rate of tokens  50.40 %, last half 75.60 %",
        "hit rate of blocks  50.00 %, last half 75.00 %",
        "evicted  0 blocks for room, 0 by TTL; 0 of them were asked for again",
        "written  3 blocks",
    ]


def test_the_result_as_json(trace: Path, capsys: Capture) -> None:
    assert run(["simulate", str(trace), "--policy", "OPT", "--capacity", "2", "--json", "-"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found["policy"] == "OPT"
    assert found["evictions"] is None
    assert found["token_hit_rate"] == pytest.approx((512 + 1000) / 3000)


def test_weights_of_workload_aware_change_what_leaves(tmp_path: Path, capsys: Capture) -> None:
    rows = [
        {"timestamp": 1000 * at, "input_length": 512 * 4, "output_length": 5, "hash_ids": ids}
        for at, ids in enumerate([s, 100 + s, 200 + s, 300 + s] for s in [0, 1, 2, 0, 3, 1, 4, 0, 5] * 9)
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = []
    for weights in ("neutral", "p_reuse_weight=0,spatial_weight=0,life_weight=1"):
        assert run(["simulate", str(path), *WEIGHTS, weights, "--json", "-"]) == ExitCode.OK
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["weights"] == "neutral"
    assert found[0]["token_hit_rate"] != found[1]["token_hit_rate"]


@pytest.mark.parametrize(
    ("policy", "capacity", "golden"),
    [
        ("LRU", 1_828, 0.054554),
        ("LRU", 18_279, 0.293933),
        ("LRU", 73_116, 0.385327),
        ("OPT", 1_828, 0.256757),
    ],
)
def test_golden_values_of_the_conversation_trace(
    policy: str, capacity: int, golden: float, capsys: Capture
) -> None:
    if not CONVERSATION.exists():
        pytest.skip("the Mooncake conversation trace is not beside this checkout (../shared/traces)")
    args = ["simulate", str(CONVERSATION), "--policy", policy, "--capacity", str(capacity), "--json", "-"]
    assert run(args) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found["token_hit_rate_last_half"] == pytest.approx(golden, abs=5e-7)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--capacity", "0"], "--capacity: 0 is less than 1 block"),
        (["--capacity", "8XB"], "--capacity: '8XB' is not a size such as 18279 (blocks), 64GiB or 10%"),
        (["--capacity", "8GiB"], "--capacity: 8 GiB needs the bytes of a token: give a model's shape"),
        (["--capacity", "1KiB", "--bytes-per-token", "4"], "--capacity: 1 KiB holds no block of 2 KiB"),
        (["--capacity", "9", "--policy", "MRU"], "--policy: 'MRU' is not one of LRU, FIFO, "),
        (["--capacity", "9", "--weights", "to-b"], "--weights: ReuseAware has none, WorkloadAware has"),
        ([*WEIGHTS, "p_reuse_weight=nan"], "--weights: p_reuse_weight: nan is not a number of at least 0"),
        ([*WEIGHTS, "life_weight=-1"], "--weights: life_weight: -1.0 is not a number of at least 0"),
        ([*WEIGHTS, "life_weight=much"], "--weights: life_weight: 'much' is not a number"),
        ([*WEIGHTS, "height=1"], "--weights: 'height=1' is neither neutral, to-b, to-c nor NAME=NUMBER of "),
        (["--capacity", "9", "--ttl", "-1s"], "--ttl: '-1s' is not a duration"),
        (["--capacity", "9", "--ttl", "nan"], "--ttl: 'nan' is not a duration"),
        (["--capacity", "9", "--eviction-ratio", "1.5"], "--eviction-ratio: 1.5 is not within (0, 1]"),
        (["--capacity", "9", "--eviction-ratio", "nan"], "--eviction-ratio: nan is not within (0, 1]"),
        (["--capacity", "9", "--store-threshold", "0"], "--store-threshold: '0' is not a whole number"),
        (["--capacity", "9", "--model-shape", "gpt-9"], "--model-shape: 'gpt-9' is neither a part"),
        (
            ["--capacity", "9", "--policy", "OPT", "--order", "forward"],
            "--order: forward: OPT takes no --order",
        ),
        (["--capacity", "9", "--policy", "OPT", "--ttl", "9s"], "--ttl: 9 s: OPT takes no --ttl"),
    ],
)
def test_a_wrong_option_is_told_in_one_line(trace: Path, args: list[str], says: str, capsys: Capture) -> None:
    assert run(["simulate", str(trace), *args]) == ExitCode.USAGE
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert line.startswith(f"kvtune: {says}")


def test_a_capacity_is_needed(trace: Path, capsys: Capture) -> None:
    assert run(["simulate", str(trace)]) == ExitCode.USAGE
    assert "Missing option '--capacity'" in capsys.readouterr().err


def test_sizes_in_bytes_and_shares(trace: Path, capsys: Capture) -> None:
    for capacity in ("100%", "6KiB"):
        args = ["simulate", str(trace), "--capacity", capacity, "--bytes-per-token", "4"]
        assert run(args) == ExitCode.OK
        assert "ReuseAware with 3 blocks (100.0 % of those)" in capsys.readouterr().out


def test_a_capacity_above_the_trace_is_said_and_allowed(trace: Path, capsys: Capture) -> None:
    assert run(["simulate", str(trace), "--capacity", "4"]) == ExitCode.OK
    assert capsys.readouterr().err == (
        "note: --capacity 4: more than the 3 distinct blocks of the trace: nothing leaves for want of room\n"
    )


def test_the_result_goes_to_a_file_beside_the_text(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out.json"
    assert run(["simulate", str(trace), "--capacity", "3", "--json", str(out)]) == ExitCode.OK
    assert json.loads(out.read_text())["capacity_blocks"] == 3
    assert capsys.readouterr().out.startswith("3 requests")


def test_a_result_file_that_cannot_be_written_is_named(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    args = ["simulate", str(trace), "--capacity", "3", "--json", str(tmp_path / "none" / "out.json")]
    assert run(args) == ExitCode.UNAVAILABLE
    assert capsys.readouterr().err == f"kvtune: {tmp_path}/none/out.json: No such file or directory\n"


def test_a_bad_line_is_named_with_its_number_field_and_value(trace: Path, capsys: Capture) -> None:
    trace.write_text(trace.read_text() + '{"timestamp": -1}\n')
    assert run(["simulate", str(trace), "--capacity", "3"]) == ExitCode.USAGE
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [f"kvtune: {trace}:4: timestamp: -1 is not a number of milliseconds >= 0"]


def test_a_request_that_holds_a_block_twice_is_refused(trace: Path, capsys: Capture) -> None:
    row = {"timestamp": 3000, "input_length": 1500, "output_length": 5, "hash_ids": [0, 1, 0]}
    trace.write_text(trace.read_text() + json.dumps(row) + "\n")
    assert run(["simulate", str(trace), "--capacity", "1", "--order", "forward"]) == ExitCode.USAGE
    assert capsys.readouterr().err == f"kvtune: {trace}:4: hash_ids: holds block 0 more than once\n"


def test_a_trace_that_is_not_there(tmp_path: Path, capsys: Capture) -> None:
    assert run(["simulate", str(tmp_path / "none"), "--capacity", "3"]) == ExitCode.UNAVAILABLE
    assert capsys.readouterr().err == f"kvtune: {tmp_path / 'none'}: No such file or directory\n"
