"""The kvtune command tells what a control plane does, and what its last state was."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

from kvtune_api.evidence import Evidence
from kvtune_cli.exits import ExitCode
from kvtune_operator.adapters.event_files import FileEvents
from kvtune_operator.adapters.files import FileObjects
from kvtune_operator.statedir import StateDir
from tests.cli.command_line import Capture, as_json, change, kvtune
from tests.fakes.clock import ORIGIN
from tests.fakes.samples import policy


def test_the_status_says_what_happens_and_why_it_waits(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    assert kvtune("status", "--state-dir", state.path) == ExitCode.OK

    text = " ".join(capsys.readouterr().out.split())
    for part in (
        "policy chat: Measuring",
        "waits for: epoch 1 of block 3 ends in 85 s",
        "agents ready 6 of 6",
        "NoTraffic",
        "experiment chat-1 (Ladder)",
        "Rejected(HarmObjective)",
        "-0.050",
        "control plane: pid",
        "(times are of the policy's clock)",
        "estimated end 00:25:00, power 0.83",
        "evidence after 0 Deltas: effect -, e-value - of 20",
        "waits for minPairs: nothing is promoted before 8 Deltas",
        "hitRate NoTraffic - - ",
    ):
        assert part in text


def test_a_status_for_a_pipe_has_no_wrapped_and_no_padded_lines(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    stored = asyncio.run(held.policy("chat"))
    assert stored is not None and stored.status is not None
    waits = "a long reason " * 30
    asyncio.run(held.put_policy_status(stored, replace(stored.status, waiting_for=waits)))

    kvtune("status", "--state-dir", state.path)

    lines = capsys.readouterr().out.splitlines()
    assert f"  waits for: {waits.rstrip()}" in lines
    assert [line for line in lines if line != line.rstrip()] == []
    assert max(len(line) for line in lines if "long reason" not in line) < 160


def test_from_min_pairs_on_nothing_waits_for_them(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    change(held, evidence=Evidence(deltas=8, effect=0.2, e_value=48.3, threshold=20.0))

    kvtune("status", "--state-dir", state.path)

    told = capsys.readouterr().out
    assert "e-value 48.3 of 20" in told
    assert "minPairs" not in told


def test_without_a_control_plane_the_status_is_the_last_one(state: StateDir, capsys: Capture) -> None:
    objects = FileObjects(state)
    asyncio.run(objects.apply_policy(policy()))
    objects.close()

    assert kvtune("status", "--state-dir", state.path) == ExitCode.OK
    assert capsys.readouterr().out.startswith("no control plane is running: this is the last state")


def test_the_status_as_json(held: FileObjects, state: StateDir, capsys: Capture) -> None:
    events = FileEvents(state.events)
    asyncio.run(events.record(policy(), [], ORIGIN))

    assert kvtune("status", "--state-dir", state.path, "--json") == ExitCode.OK

    told = as_json(capsys)
    assert told["policies"][0]["status"]["phase"] == "Measuring"
    assert told["experiments"][0]["metadata"]["name"] == "chat-1"
    assert told["controlPlane"].startswith("pid ")


def test_the_status_of_a_directory_without_a_policy(state: StateDir, capsys: Capture) -> None:
    assert kvtune("status", "--state-dir", state.path) == ExitCode.UNAVAILABLE
    assert "holds no policy (give the --state-dir of `kvtune up`" in capsys.readouterr().err


def test_a_status_without_a_policy_names_the_runs_of_the_demo(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for run_name in ("run-1", "run-2", "run-3"):
        (tmp_path / ".kvtune" / "demo" / run_name / "state" / "policies").mkdir(parents=True)

    assert kvtune("status") == ExitCode.UNAVAILABLE
    told = capsys.readouterr().err
    assert "--state-dir .kvtune/demo/run-3/state; of the demo: --state-dir .kvtune/demo/run-2/state" in told
    assert "run-1" not in told


def test_the_status_of_a_damaged_directory_names_the_line(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    state.experiment_file("chat-1").write_text('{\n"metadata": 1,\n}')

    assert kvtune("status", "--state-dir", state.path) == ExitCode.CORRUPT
    assert "chat-1.json line 3: " in capsys.readouterr().err


def test_a_policy_that_is_not_served_is_not_shown_as_if_it_were(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    other = policy()
    asyncio.run(held.apply_policy(replace(other, metadata=replace(other.metadata, name="next", uid="u2"))))

    assert kvtune("status", "--state-dir", state.path) == ExitCode.OK
    text = capsys.readouterr().out
    assert re.search(
        r"policy chat: not served since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC by this machine", text
    )
    assert "policy next: " in text
    assert "agents ready 6 of 6" not in text

    assert kvtune("status", "--state-dir", state.path, "--json") == ExitCode.OK
    assert as_json(capsys)["notServed"] == ["chat"]


def test_an_estimated_end_that_has_passed_is_not_promised(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    change(held, last_data_at=1501.0)

    kvtune("status", "--state-dir", state.path)

    text = capsys.readouterr().out
    assert "takes longer than estimated (until 00:25:00), power 0.83" in text
    assert "estimated end" not in text
