"""An agent records what it serves, and the laboratory reads it."""

import errno
import json
import logging
import signal
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kvtune_agent.engines.batches import ReplayBatch
from kvtune_agent.engines.replay import ReplayEngine
from kvtune_agent.exits import ExitCode, StateUnavailable
from kvtune_agent.recording import Recorder
from kvtune_api.codec import dump
from kvtune_api.hints import Hint
from kvtune_api.recordings import Recorded
from kvtune_lab.generator import generate
from kvtune_lab.readers.load import load
from kvtune_lab.readers.loaded import as_lists
from kvtune_lab.setups import Policy, Setup
from kvtune_lab.simulate import Simulator
from tests.agent.fake_clock import ORIGIN as T
from tests.agent.fake_clock import FakeClock
from tests.agent.samples import WRITE, new_agent
from tests.agent.test_process import refused_start, running_agent
from tests.lab.packed import packed

ORIGIN = 1_700_000_000
CLOCK = ("--origin", str(ORIGIN), "--speed", "600")


def request(at: float, blocks: int = 2) -> Recorded:
    return Recorded(arrival_s=at, blocks=list(range(blocks)), prompt_tokens=16 * blocks)


def recorder(folder: Path, **changes: Any) -> Recorder:
    return Recorder(folder, "a1", **({"started_at": 7.0, "block_tokens": 16} | changes))


def test_what_an_agent_process_has_served_is_simulated_as_it_was(tmp_path: Path) -> None:
    served = list(islice(generate(requests_per_second=5.0, seed=1, hinted_share=0.5), 1500))
    rows = [
        [ORIGIN + r.arrival_s, r.root, r.prompt_tokens, r.output_tokens, r.blocks]
        + ([dump(r.hint)] if r.hint is not None else [])
        for r in served
    ]
    with running_agent(tmp_path, *CLOCK, "--record", str(tmp_path / "rec")) as (process, client):
        for _ in range(2):  # a batch that is repeated is served once
            body = {"until": rows[-1][0], "requests": rows}
            assert client.post("/v1/replay", json=body, headers=WRITE).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == ExitCode.OK

    (file,) = (tmp_path / "rec").iterdir()
    loaded = load(file)
    found, asked = as_lists(loaded.requests), as_lists(packed(served, block_tokens=128))
    assert loaded.block_tokens == 128
    assert (found.starts, found.blocks, found.outputs) == (asked.starts, asked.blocks, asked.outputs)
    assert found.hints == asked.hints
    assert any(hint < 0 for hint in found.hints) and any(hint > 0 for hint in found.hints)
    assert loaded.sessions is not None and len(set(loaded.sessions.tolist())) == len({r.root for r in served})
    setup = Setup(policy=Policy.REUSE_AWARE, capacity_blocks=1000)
    here, there = (
        Simulator(part).simulate(setup) for part in (loaded.requests, packed(served, block_tokens=128))
    )
    assert here.block_hit_rate == pytest.approx(there.block_hit_rate, abs=0.01)


async def test_kinds_and_hints_are_recorded_as_they_were_told(tmp_path: Path) -> None:
    agent = new_agent(tmp_path, FakeClock(), record_dir=tmp_path / "rec")
    assert isinstance(agent.engine, ReplayEngine)
    hints = (Hint(request_kind=2), None, Hint(request_kind=4, tool_running=True))
    requests = [(T + at, 1, 256, 3, [1, 2], hint) for at, hint in enumerate(hints, 1)]
    await agent.engine.replay(ReplayBatch(until=T + 4, requests=requests))
    agent.close()

    (file,) = (tmp_path / "rec").iterdir()
    loaded = load(file)
    assert loaded.kind_names == ("2", "4")
    assert as_lists(loaded.requests).kinds == [1, 0, 2]
    assert [json.loads(row).get("hint") for row in file.read_text().splitlines()[1:]] == [
        None,
        None,
        {"toolRunning": True},
    ]


def test_a_request_that_the_format_has_no_place_for_is_left_out_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = recorder(tmp_path)
    for one in (
        request(1),
        replace(request(2), prompt_tokens=99),
        replace(request(2), prompt_tokens=99),
        request(3),
    ):
        file.take(one)
    file.close()

    assert [record.getMessage() for record in caplog.records] == ["request not recorded"]
    assert as_lists(load(file.path).requests).times == [0.0, 2.0]


class FullDisk:
    """A file on a disk that is full."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        pass


def test_a_full_disk_ends_the_recording_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = recorder(tmp_path)
    file._file.close()
    file._file = FullDisk()  # type: ignore[assignment]  # as far as it is used

    for at in (1, 2, 3):
        file.take(request(at))

    assert [record.getMessage() for record in caplog.records] == ["recording ended"]
    assert vars(caplog.records[0])["why"] == "No space left on device"


def test_a_recording_ends_at_its_limit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = recorder(tmp_path, bytes_max=150)
    for at in range(1, 9):
        file.take(request(at))
    file.close()

    assert file.path.stat().st_size <= 150
    assert [record.getMessage() for record in caplog.records] == ["recording ended"]
    assert 1 <= len(load(file.path).requests.times) < 8


def test_each_process_has_a_file_of_its_own(tmp_path: Path) -> None:
    recorder(tmp_path).close()
    with pytest.raises(StateUnavailable, match=r"a1-7.jsonl cannot be made: File exists"):
        recorder(tmp_path)


def test_an_agent_that_does_not_start_leaves_no_recording(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "incumbent.json").write_text("{")
    code, _ = refused_start(tmp_path, "--record", str(tmp_path / "rec"))

    assert code == ExitCode.STATE_CORRUPT
    assert list((tmp_path / "rec").iterdir()) == []


def test_a_folder_that_cannot_be_used_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "rec").write_text("")
    code, said = refused_start(tmp_path, "--record", str(tmp_path / "rec"))

    assert code == ExitCode.STATE_DIR
    assert "cannot be made: File exists" in said


def test_an_agent_ends_its_recording_when_it_is_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    new_agent(tmp_path, FakeClock(), record_dir=tmp_path / "rec").close()
    (file,) = (tmp_path / "rec").iterdir()

    assert file.read_text().startswith('{"format": "kvtune-recording/1", "blockTokens": 128}')
    assert not caplog.records
