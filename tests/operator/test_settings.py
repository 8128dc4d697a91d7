"""Settings are checked once, all problems at once."""

from pathlib import Path
from typing import Any

import pytest

from kvtune_api.errors import SpecError
from kvtune_operator.settings import Settings, address_trouble

PATHS: dict[str, Any] = {"state_dir": Path("state"), "token_file": Path("token")}


def test_the_defaults_are_valid() -> None:
    assert Settings(**PATHS).tick_seconds == 5.0


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(SpecError) as refused:
        Settings(
            **PATHS,
            speed=0.0,
            tick_seconds=float("nan"),
            agents=("ftp://a", "http://b:1"),
            health_port=70_000,
        )

    assert [problem.path for problem in refused.value.problems] == [
        "speed",
        "tickSeconds",
        "healthPort",
        "agents[0]",
    ]


@pytest.mark.parametrize(
    "address",
    [
        "",
        "a:1",
        "http://",
        "http:///x",
        "http://a/path",
        "http://a?x=1",
        "http://u:p@a:1",
        "http://a:0",
        "http://[::1",
    ],
)
def test_a_wrong_address_is_told(address: str) -> None:
    assert address_trouble(address) is not None


@pytest.mark.parametrize(
    "address", ["http://a:1", "https://a.example", "http://[::1]:9000/", "http://10.0.0.1:80"]
)
def test_a_right_address_is_taken(address: str) -> None:
    assert address_trouble(address) is None


def test_an_address_with_a_password_does_not_show_it() -> None:
    assert "secret" not in (address_trouble("http://user:secret@a:1") or "")


def test_a_control_plane_is_not_called_stuck_within_three_steps() -> None:
    assert Settings(**PATHS, tick_seconds=60).stuck_after_seconds == 180
    assert Settings(**PATHS, tick_seconds=60, speed=60).stuck_after_seconds == 12
