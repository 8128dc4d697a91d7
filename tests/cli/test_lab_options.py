"""Options of the laboratory's commands."""

from collections.abc import Callable

import pytest
import typer

from kvtune_cli.exits import ExitCode
from kvtune_cli.lab_options import (
    bytes_of_a_token,
    capacities,
    chosen,
    listed,
    policy,
    ratio,
    threshold,
    ttl_seconds,
)
from kvtune_lab.setups import Policy

Capture = pytest.CaptureFixture[str]


def told(capsys: Capture, call: Callable[[], object]) -> str:
    """What a wrong option leads to: one line and the exit code of a wrong command line."""
    with pytest.raises(typer.Exit) as end:
        call()
    assert end.value.exit_code == ExitCode.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_values_are_listed_each_once() -> None:
    assert listed("--policies", "LRU, arc,LRU", policy) == [Policy.LRU, Policy.ARC]
    assert listed("--ttls", "none,90s,1m30s", ttl_seconds) == [None, 90.0]
    assert listed("--eviction-ratios", "none,.5", ratio) == [None, 0.5]
    assert chosen("--store-threshold", "2", threshold) == 2


@pytest.mark.parametrize(
    ("text", "read", "says"),
    [
        ("LRU,MRU", policy, "--x: 'MRU' is not one of LRU, FIFO, SIEVE, S3FIFO, ARC"),
        ("-5s", ttl_seconds, "--x: '-5s' is not a duration such as '90s', '5m' or '320ms'"),
        ("nan", ttl_seconds, "--x: 'nan' is not a duration such as"),
        ("0s", ttl_seconds, "--x: 0s is not greater than 0"),
        ("90", ttl_seconds, "--x: '90' is not a duration"),
        ("0", ratio, "--x: 0 is not within (0, 1]"),
        ("1.5", ratio, "--x: 1.5 is not within (0, 1]"),
        ("nan", ratio, "--x: nan is not within (0, 1]"),
        ("a lot", ratio, "--x: 'a lot' is not a number within (0, 1], nor none"),
        ("-1", threshold, "--x: '-1' is not a whole number from 1 on"),
        (" , ", policy, "--x: ' , ' holds no value"),
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
    assert "--model-shape: 'gpt-9' is neither" in told(capsys, lambda: bytes_of_a_token(None, "gpt-9"))


def test_capacities_are_blocks_bytes_or_shares(capsys: Capture) -> None:
    found = capacities("--c", ["10", "10%", "4KiB", "50%"], distinct_blocks=100, bytes_per_block=1024)
    assert found == [10, 4, 50]
    assert capsys.readouterr().err == ""


def test_a_capacity_above_the_trace_is_said(capsys: Capture) -> None:
    assert capacities("--c", ["101", "100"], distinct_blocks=100, bytes_per_block=None) == [101, 100]
    assert capsys.readouterr().err == (
        "note: --c 101: more than the 100 distinct blocks of the trace: nothing leaves for want of room\n"
    )


@pytest.mark.parametrize(
    ("text", "says"), [("0", "0 is less than 1 block"), ("1GiB", "1 GiB needs the bytes of a token")]
)
def test_a_wrong_capacity_is_told_in_one_line(text: str, says: str, capsys: Capture) -> None:
    line = told(capsys, lambda: capacities("--c", [text], distinct_blocks=9, bytes_per_block=None))
    assert line.startswith(f"kvtune: --c: {says}")
