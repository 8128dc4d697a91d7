"""Settings: everything wrong at once."""

from pathlib import Path

import pytest

from kvtune_agent.settings import AgentSettings
from kvtune_api.errors import SpecError
from tests.agent.samples import START


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        AgentSettings(
            name="a b",
            config=START,
            state_dir=tmp_path,
            token_file=tmp_path / "token",
            port=70_000,
            engine="vllm",
            origin=float("nan"),
            speed=0,
            keep_seconds=1,
        )

    paths = [problem.path for problem in caught.value.problems]
    assert paths == ["name", "port", "engine", "origin", "speed", "keepSeconds"]
    assert "70000 is not within 0 and 65535" in str(caught.value)


def test_counters_are_kept_for_an_hour_and_ten_wall_minutes(tmp_path: Path) -> None:
    made = AgentSettings(name="a1", config=START, state_dir=tmp_path, token_file=tmp_path / "token", speed=60)

    assert made.kept_seconds == 3600 + 36_000
