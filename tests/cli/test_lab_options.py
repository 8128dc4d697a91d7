"""Options of the laboratory's commands."""

from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from kvtune_cli.exits import ExitCode
from kvtune_cli.lab_options import (
    bytes_of_a_token,
    capacities,
    chosen,
    listed,
    policy_of,
    ratio_of,
    threshold_of,
    ttl_of,
)
from kvtune_cli.lab_traces import Trace
from kvtune_lab.readers.loaded import Format, Loaded, as_requests
from kvtune_lab.setups import Policy

Capture = pytest.CaptureFixture[str]


def trace(distinct: int) -> Trace:
    """A trace of so many distinct blocks of 16 tokens, each asked for once."""
    blocks, tokens = list(range(distinct)), [16] * distinct
    requests = as_requests([0, distinct], blocks, tokens, [0.0], [1], [0])
    loaded = Loaded(requests=requests, block_tokens=16, format=Format.MOONCAKE, sessions=None)
    return Trace(Path("t"), loaded)


def told(capsys: Capture, call: Callable[[], object]) -> str:
    """What a wrong option leads to: one line and the exit code of a wrong command line."""
    with pytest.raises(typer.Exit) as end:
        call()
    assert end.value.exit_code == ExitCode.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_values_are_listed_each_once() -> None:
    assert listed("--policies", "LRU, arc,LRU", policy_of) == [Policy.LRU, Policy.ARC]
    assert listed("--ttls", "none,90s,1m30s", ttl_of) == [None, 90.0]
    assert listed("--eviction-ratios", "none,.5", ratio_of) == [None, 0.5]
    assert chosen("--store-threshold", "2", threshold_of) == 2


@pytest.mark.parametrize(
    ("text", "read", "says"),
    [
        ("LRU,MRU", policy_of, "--x: 'MRU' is not one of LRU, FIFO, S3FIFO, SIEVE, ARC"),
        ("-5s", ttl_of, "--x: '-5s' is not a duration such as '90s', '5m' or '320ms'"),
        ("nan", ttl_of, "--x: 'nan' is not a duration such as"),
        ("0s", ttl_of, "--x: 0s is not greater than 0"),
        ("90", ttl_of, "--x: '90' is not a duration"),
        ("0", ratio_of, "--x: 0 is not within (0, 1]"),
        ("1.5", ratio_of, "--x: 1.5 is not within (0, 1]"),
        ("nan", ratio_of, "--x: nan is not within (0, 1]"),
        ("a lot", ratio_of, "--x: 'a lot' is not a number within (0, 1], nor none"),
        ("-1", threshold_of, "--x: '-1' is not a whole number from 1 to 255"),
        (" , ", policy_of, "--x: ' , ' holds no value"),
    ],
)
def test_a_wrong_value_is_told_in_one_line(
    text: str, read: Callable[[str], object], says: str, capsys: Capture
) -> None:
    assert told(capsys, lambda: listed("--x", text, read)).startswith(f"kvtune: {says}")


def test_bytes_of_a_token_come_from_either_option(capsys: Capture) -> None:
    assert bytes_of_a_token(None, None) is None
    assert bytes_of_a_token(4096, None) == 4096
    assert bytes_of_a_token(None, "llama-3.1-8b") == 131_072
    assert "give this or --model-shape" in told(capsys, lambda: bytes_of_a_token(1, "llama-3.1-8b"))
    assert "--bytes-per-token: 0 is less" in told(capsys, lambda: bytes_of_a_token(0, None))
    large = told(capsys, lambda: bytes_of_a_token(10**400, None))
    assert "0 is above 1,073,741,824" in large
    shape = "layers=999999999,kv_heads=999999999,head_dim=999999999"
    assert "bytes a token are above" in told(capsys, lambda: bytes_of_a_token(None, shape))
    assert "--model-shape: 'gpt-9' is neither" in told(capsys, lambda: bytes_of_a_token(None, "gpt-9"))


def test_capacities_are_blocks_bytes_or_shares(capsys: Capture) -> None:
    found = capacities("--c", ["10", "10%", "4KiB", "50%"], trace(100), 64)
    assert found == [10, 4, 50]
    assert capsys.readouterr().err == ""


def test_a_capacity_above_the_trace_is_said(capsys: Capture) -> None:
    assert capacities("--c", ["101", "100"], trace(100), None) == [101, 100]
    assert capsys.readouterr().err == (
        "note: --c 101: more than the 100 distinct blocks of the trace: nothing leaves for want of room\n"
    )


@pytest.mark.parametrize(
    ("text", "says"), [("0", "0 is less than 1 block"), ("1GiB", "1 GiB needs the bytes of a token")]
)
def test_a_wrong_capacity_is_told_in_one_line(text: str, says: str, capsys: Capture) -> None:
    line = told(capsys, lambda: capacities("--c", [text], trace(9), None))
    assert line.startswith(f"kvtune: --c: {says}")
