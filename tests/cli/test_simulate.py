"""`kvtune simulate`."""

import json
from pathlib import Path

import pytest

from kvtune_cli.exits import ExitCode
from kvtune_cli.main import run

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
        "LRU with 3 blocks (100.0% of those); 0 blocks were evicted",
        "hit rate of tokens  0.5040, last half 0.7560",
        "hit rate of blocks  0.5000, last half 0.7500",
    ]


def test_the_result_as_json(trace: Path, capsys: Capture) -> None:
    assert run(["simulate", str(trace), "--policy", "OPT", "--capacity", "2", "--json"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found["policy"] == "OPT"
    assert found["evictions"] is None
    assert found["token_hit_rate"] == pytest.approx((512 + 1000) / 3000)


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
    args = ["simulate", str(CONVERSATION), "--policy", policy, "--capacity", str(capacity), "--json"]
    assert run(args) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found["token_hit_rate_last_half"] == pytest.approx(golden, abs=5e-7)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--capacity", "0"], "should be greater than or equal to 1"),
        (["--capacity", "8GB"], "unable to parse string as an integer"),
        (["--capacity", "9", "--policy", "MRU"], "'MRU' is not one of"),
        (["--capacity", "9", "--policy", "OPT", "--order", "forward"], "forward: OPT knows no order"),
        ([], "Missing option '--capacity'"),
    ],
)
def test_a_wrong_option_is_named(trace: Path, args: list[str], says: str, capsys: Capture) -> None:
    assert run(["simulate", str(trace), *args]) == ExitCode.USAGE
    assert says in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_a_bad_line_is_named_with_its_number_field_and_value(trace: Path, capsys: Capture) -> None:
    trace.write_text(trace.read_text() + '{"timestamp": -1}\n')
    assert run(["simulate", str(trace), "--capacity", "3"]) == ExitCode.USAGE
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [
        f"kvtune: {trace}: line 4: timestamp: -1 is not a number of milliseconds >= 0"
    ]


def test_a_request_that_holds_a_block_twice_is_refused(trace: Path, capsys: Capture) -> None:
    row = {"timestamp": 3000, "input_length": 1500, "output_length": 5, "hash_ids": [0, 1, 0]}
    trace.write_text(trace.read_text() + json.dumps(row) + "\n")
    assert run(["simulate", str(trace), "--capacity", "1", "--order", "forward"]) == ExitCode.USAGE
    assert capsys.readouterr().err == f"kvtune: {trace}: line 4: hash_ids: holds block 0 more than once\n"


def test_a_trace_that_is_not_there(tmp_path: Path, capsys: Capture) -> None:
    assert run(["simulate", str(tmp_path / "none"), "--capacity", "3"]) == ExitCode.UNAVAILABLE
    assert capsys.readouterr().err == f"kvtune: {tmp_path / 'none'}: No such file or directory\n"
