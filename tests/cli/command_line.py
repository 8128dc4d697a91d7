"""The kvtune command as tests give it, and what it leaves."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvtune_api.experiment import KVCacheExperiment
from kvtune_cli.main import run
from kvtune_operator.adapters.files import FileObjects
from kvtune_tuner.model import Verb

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
Capture = pytest.CaptureFixture[str]


def kvtune(*args: object) -> int:
    """Run the command and return the code with which it ends."""
    return run([str(arg) for arg in args])


def waiting(objects: FileObjects) -> list[tuple[Verb, str]]:
    """The commands that wait for the control plane."""
    return [(command.verb, command.target) for command in asyncio.run(objects.commands("chat"))]


def as_json(capsys: Capture) -> Any:
    """What was printed, which must be JSON without NaN."""
    out = capsys.readouterr().out
    assert "NaN" not in out
    return json.loads(out)


def change(objects: FileObjects, **status: Any) -> KVCacheExperiment:
    """Store another status of the experiment."""
    read = asyncio.run(objects.experiment("chat-1"))
    assert read is not None
    return asyncio.run(objects.put_experiment(replace(read, status=replace(read.status, **status))))
