"""The driver as a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kvtune_lab.__main__ import main, parser


def test_a_bad_trace_ends_with_one_line_that_says_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "t"
    trace.write_text('{"timestamp": -1}\n', encoding="utf-8")
    code = main(["drive", "--agents", "http://127.0.0.1:9", "--origin", "0", "--trace", str(trace)])
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code == 2
    assert events[-1]["event"] == "failed"
    assert ":1: timestamp: -1 is not a number" in events[-1]["reason"]


def test_a_speed_of_zero_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drive", "--agents", "http://127.0.0.1:9", "--origin", "0", "--speed", "0"]) == 2
    assert "speed: 0.0 is not" in json.loads(capsys.readouterr().out)["reason"]


def test_the_driver_stops_when_its_input_closes() -> None:
    command = [sys.executable, "-m", "kvtune_lab", "drive", "--agents", "http://127.0.0.1:9", "--origin"]
    rest = ["4000000000", "--prefill", "0", "--rate", ".1", "--stop-on-eof"]
    ended = subprocess.run([*command, *rest], input=b"", capture_output=True, timeout=60, check=True)
    assert json.loads(ended.stdout.splitlines()[-1])["event"] == "ended"


def test_help_names_every_job() -> None:
    assert "drive" in parser().format_help()
