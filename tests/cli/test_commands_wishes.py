"""The kvtune command leaves wishes for a control plane: abort, pause, resume, approve."""

from pathlib import Path

import pytest

from kvtune_api.names import Outcome, OutcomeReason, Phase
from kvtune_cli.exits import ExitCode
from kvtune_operator.adapters.files import FileObjects
from kvtune_operator.statedir import StateDir
from kvtune_tuner.model import Verb
from tests.cli.command_line import Capture, as_json, change, kvtune, waiting


@pytest.mark.parametrize(
    ("verb", "target"), [("abort", "chat-1"), ("abort", ""), ("pause", ""), ("resume", "")]
)
def test_a_wish_is_left_for_the_running_control_plane(
    held: FileObjects, state: StateDir, capsys: Capture, verb: str, target: str
) -> None:
    assert kvtune(verb, *([target] if target else []), "--state-dir", state.path) == ExitCode.OK

    assert waiting(held) == [(Verb(verb), target)]
    told = capsys.readouterr().out
    assert told.startswith("asked the control plane (pid ")
    assert "at its next step" in told


def test_a_wish_as_json(held: FileObjects, state: StateDir, capsys: Capture) -> None:
    assert kvtune("pause", "--state-dir", state.path, "--json") == ExitCode.OK

    told = as_json(capsys)
    assert told["verb"] == "pause"
    assert Path(told["file"]).exists()


@pytest.mark.parametrize(
    "command", [("abort",), ("abort", "chat-1"), ("pause",), ("resume",), ("approve", "chat-1")]
)
def test_without_a_control_plane_a_wish_is_refused(
    state: StateDir, capsys: Capture, command: tuple[str, ...]
) -> None:
    assert kvtune(*command, "--state-dir", state.path) == ExitCode.UNAVAILABLE
    assert "no control plane runs on this directory" in capsys.readouterr().err


def test_an_unknown_experiment_is_refused_with_the_known_ones(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    assert kvtune("abort", "chat-9", "--state-dir", state.path) == ExitCode.USAGE

    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "chat-9: there is no such experiment (newest: chat-1)" in told
    assert waiting(held) == []


def test_an_experiment_that_has_ended_cannot_be_aborted(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    end(state, held)

    assert kvtune("abort", "chat-1", "--state-dir", state.path) == ExitCode.USAGE
    assert "has ended: Promoted(Superior)" in " ".join(capsys.readouterr().err.split())


def test_an_experiment_that_does_not_wait_cannot_be_approved(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    assert kvtune("approve", "chat-1", "--state-dir", state.path) == ExitCode.USAGE
    assert "chat-1 is Measuring" in " ".join(capsys.readouterr().err.split())


def test_an_experiment_that_waits_is_approved(held: FileObjects, state: StateDir, capsys: Capture) -> None:
    change(held, phase=Phase.AWAITING_APPROVAL)

    assert kvtune("approve", "chat-1", "--state-dir", state.path) == ExitCode.OK
    assert waiting(held) == [(Verb.APPROVE, "chat-1")]


def end(state: StateDir, objects: FileObjects) -> None:
    change(objects, outcome=Outcome.PROMOTED, reason=OutcomeReason.SUPERIOR)
