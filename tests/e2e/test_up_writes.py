"""Who may write to an agent: nobody without the token, and of two control planes only the newer."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kvtune_api.wire import Report
from tests.e2e.conftest import NewPlane
from tests.e2e.fleet import SPEED, Fleet
from tests.e2e.policies import quick
from tests.e2e.processes import KVTUNE, Running, until

TOKENS = {
    "none": {},
    "a wrong one": {"authorization": "Bearer wrong"},
    "an empty one": {"authorization": "Bearer"},
}
WRITES: dict[str, tuple[str, dict[str, Any]]] = {
    "/v1/config": (
        "PUT",
        {
            "role": "incumbent",
            "generation": 1,
            "token": 2**53,
            "policyUID": "stranger",
            "config": {"cacheTTL": "1s"},
        },
    ),
    "/v1/replay": ("POST", {"until": 1e10, "requests": [[1e10 - 1, 1, 256, 1, [1, 2]]]}),
}


@pytest.mark.parametrize("path", WRITES)
@pytest.mark.parametrize("headers", TOKENS.values(), ids=TOKENS.keys())
def test_nobody_writes_without_the_token(fleet: Fleet, path: str, headers: dict[str, str]) -> None:
    method, body = WRITES[path]
    before = [held(report) for report in fleet.reports()]

    for url in fleet.urls:
        answer = fleet.client.request(method, f"{url}{path}", json=body, headers=headers)
        assert answer.status_code == 401

    assert [held(report) for report in fleet.reports()] == before


def held(report: Report) -> tuple[object, ...]:
    """What an agent holds, without what time changes."""
    running = report.running
    return running.role, running.config, running.incumbent, running.generation, running.token


def test_a_control_plane_with_a_wrong_token_changes_nothing_and_says_so(
    fleet: Fleet, new_plane: NewPlane, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong-token"
    wrong.write_text("sesame-7431\n")
    before = [held(report) for report in fleet.reports()]
    plane = new_plane(other_start())

    plane.start("--token-file", wrong)
    converged = until(
        lambda: condition(plane.status(), "Converged", "False"), "status says so", plane.describe
    )

    assert converged["reason"] == "OutOfSync"
    plane.up.until_said("401")
    assert [held(report) for report in fleet.reports()] == before
    assert plane.experiments() == ()
    plane.up.stop()
    assert "sesame" not in plane.up.err


def other_start() -> dict[str, Any]:
    """A policy whose start no agent runs."""
    return quick(knobs={"cacheTTL": {"min": "20s", "max": "40s", "start": "25s"}}, mode="Auto")


def condition(status: Any, kind: str, truth: str) -> Any:
    """A condition of the only policy, where it has this truth."""
    found = (status["policies"][0].get("status") or {}).get("conditions") or []
    return next((one for one in found if (one["type"], one["status"]) == (kind, truth)), None)


def test_a_second_control_plane_on_the_same_directory_is_refused_and_the_first_goes_on(
    new_plane: NewPlane,
) -> None:
    plane = new_plane()
    first = plane.start()

    second = plane.start_only()

    assert second.code() == 5
    assert (
        f"another control plane holds this directory (pid {first.pid} on {os.uname().nodename})" in second.err
    )
    assert first.alive
    plane.ups.remove(second)
    plane.until_exposed()


def test_of_two_control_planes_on_the_same_agents_the_older_is_fenced(
    fleet: Fleet, new_plane: NewPlane
) -> None:
    older, newer = new_plane(), new_plane()
    older.start()
    older.until_exposed()

    newer.start()

    assert older.up.code() == 7
    assert "a newer control plane has taken over these agents" in older.up.err
    fenced = condition(older.status(), "Fenced", "True")
    assert fenced["reason"] == "Fenced"
    newer.until_exposed()
    token = json.loads((newer.path / "fence.json").read_text())["token"]
    until(lambda: tokens(fleet) == {token}, "all agents follow the newer")
    assert newer.up.alive


def tokens(fleet: Fleet) -> set[int]:
    """The fencing tokens that the agents hold."""
    return {report.running.token for report in fleet.reports()}


def test_an_agent_on_a_port_in_use_says_so(fleet: Fleet, tmp_path: Path) -> None:
    agent = Running(
        tmp_path,
        "agent",
        KVTUNE,
        "agent",
        *("--name", "twin", "--state-dir", tmp_path / "twin", "--token-file", fleet.token_file),
        *("--port", fleet.ports[0], "--speed", SPEED),
    )

    assert agent.code() == 4
    assert "Address already in use" in agent.err
