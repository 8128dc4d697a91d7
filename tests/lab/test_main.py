"""The driver as a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kvtune_lab.__main__ import main, parser
from kvtune_lab.readers.load import load
from kvtune_lab.setups import Policy, Setup
from kvtune_lab.simulate import Simulator


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
    assert "record" in parser().format_help()


def test_generated_requests_are_recorded_as_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    assert main(["record", str(file), "--requests", "200", "--seed", "3"]) == 0
    loaded = load(file)
    assert len(loaded.requests.starts) - 1 == 200
    assert loaded.sessions is not None
    assert not any(loaded.requests.hints)


def test_hints_are_recorded_and_a_simulation_of_the_recording_uses_them(tmp_path: Path) -> None:
    rates = []
    for share in ("0", "1"):
        file = tmp_path / f"chat-{share}.jsonl"
        options = ["--requests", "3000", "--seed", "3", "--hinted-share", share]
        assert main(["record", str(file), *options]) == 0
        setup = Setup(policy=Policy.REUSE_AWARE, capacity_blocks=2000)
        rates.append(Simulator(load(file).requests).simulate(setup).token_hit_rate)
    assert rates[1] > 1.02 * rates[0], rates


def test_a_recording_of_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", str(tmp_path / "t"), "--requests", "0"]) == 2
    assert json.loads(capsys.readouterr().out)["reason"] == "requests: 0 is less than 1"


@pytest.mark.parametrize("rate", ["1e300", "1e-300", "nan"])
def test_a_rate_that_no_fleet_has_is_refused_and_the_file_stays(
    rate: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t").write_text("earlier")
    assert main(["record", str(tmp_path / "t"), "--requests", "2", "--rate", rate]) == 2
    assert json.loads(capsys.readouterr().out)["reason"].startswith("requests_per_second: ")
    assert (tmp_path / "t").read_text() == "earlier"


def test_the_slowest_trace_is_read_again(tmp_path: Path) -> None:
    assert main(["record", str(tmp_path / "t"), "--requests", "50", "--rate", "1e-6"]) == 0
    assert len(load(tmp_path / "t").requests.times) == 50


def test_a_token_that_is_not_there_ends_the_driver(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--agents", "http://127.0.0.1:9", "--origin", "0", "--token-file", str(tmp_path / "none")]
    assert main(["drive", *options]) == 2
    assert "none" in json.loads(capsys.readouterr().out.splitlines()[-1])["reason"]


def test_a_recording_that_cannot_be_written_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["record", str(tmp_path / "none" / "t")]) == 2
    assert "No such file or directory" in json.loads(capsys.readouterr().out)["reason"]
