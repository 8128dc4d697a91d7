"""What the operator's ConfigMap allows, read live: kill switch, freeze windows, caps, and text that is wrong.

One operator serves all tests of this file; its settings are replaced from test to test.
"""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from kvtune_operator.clock import WallClock
from tests.cluster.farm import Herd, short
from tests.cluster.shared import Object, Scene, scene
from tests.e2e.processes import until
from tools.controlplane.access import Access

THREE = ("first", "second", "third")
SPEC = short(experiment={"leaseDuration": "60s", "maxPairs": 16})
"""Leases longer than the tests wait: who comes home was told to."""


@pytest.fixture(scope="module")
def shared(control_plane: Access, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    herds = [Herd(name=name, agents=4, gains={}) for name in THREE]
    with scene(
        control_plane, tmp_path_factory.mktemp("limits"), *herds, settings="maxExperiments: 2\n"
    ) as made:
        for name in THREE:
            made.policies.apply(name, **SPEC)
        yield made
        made.operator.check_no_traceback()
        assert made.operator.stop() == 0


def live(shared: Scene) -> list[str]:
    """Policies whose status names an experiment."""
    return [name for name in THREE if shared.status(name).get("experiment")]


def waiting(shared: Scene, name: str, reason: str) -> str:
    """Why no experiment runs, once that is for this reason."""
    found = shared.condition(name, "Experimenting", "False", reason)
    assert shared.status(name)["waitingFor"] == found["message"]
    return str(found["message"])


def last(shared: Scene, name: str) -> Object:
    """The newest experiment of a policy."""
    root = shared.policies.path.rpartition("/")[0]
    items = shared.access.query(f"{root}/kvcacheexperiments", labelSelector=f"kvtune.dev/policy={name}")[
        "items"
    ]
    return dict(max(items, key=lambda item: str(item["metadata"]["name"])))


def ended(shared: Scene, names: list[str]) -> list[Object]:
    """The newest experiments of some policies, once all have ended."""
    until(lambda: not live(shared), "no experiment is left", lambda: [shared.context(name) for name in names])
    assert not shared.farm.exposed()
    return [last(shared, name)["status"] for name in names]


def test_of_three_policies_two_experiment_and_the_third_says_why_it_waits(shared: Scene) -> None:
    until(lambda: len(live(shared)) == 2, "two run", lambda: [shared.context(name) for name in THREE])
    [third] = set(THREE) - set(live(shared))
    where = f"ConfigMap kvtune-operator in namespace {shared.namespace}"
    assert (
        waiting(shared, third, "Capped")
        == f"2 experiments run, at most 2 may at once ({where}: maxExperiments)"
    )
    shared.ticks(5)
    assert len(live(shared)) == 2


def test_settings_that_are_wrong_are_told_once_and_the_last_valid_ones_stay_in_force(shared: Scene) -> None:
    for text, says in (
        ("maxExperiments: [", "line 1"),
        ("maxExperimentz: 3\n", "maxExperimentz: unknown field"),
        ("maxExperiments: many\n", "maxExperiments: 'many'"),
    ):
        shared.settings(text)
        until_told(shared, says)
    assert all("the last valid ones stay in force" in message for message in told(shared))
    assert len(told(shared)) == 3 and len(live(shared)) == 2


def told(shared: Scene) -> list[str]:
    """Messages of the events of the ConfigMap."""
    return [item["message"] for item in shared.events("kvtune-operator") if item["type"] == "Warning"]


def until_told(shared: Scene, says: str) -> None:
    """Wait until one of them says something."""
    until(lambda: any(says in one for one in told(shared)), f"an event says {says}", lambda: told(shared))


def test_the_kill_switch_brings_every_agent_home_and_nothing_starts_until_it_is_off(shared: Scene) -> None:
    two = live(shared)
    until(lambda: all(shared.farm.exposed(name) for name in two), "candidates run")
    shared.settings("stop: true\n")
    for status in ended(shared, two):
        assert (status["outcome"], status["reason"]) == ("Aborted", "Frozen")
        assert status["message"].startswith("Stopped: the kill switch is on (ConfigMap kvtune-operator")
    assert {agent["lapses"] for agent in shared.farm.agents().values()} == {0}, "they were told to, in time"
    for name in THREE:
        assert "the kill switch is on" in waiting(shared, name, "Stopped")
    assert any("Aborted(Frozen)" in event["message"] for event in shared.events(two[0], "ExperimentEnded"))


def test_a_freeze_window_ends_what_runs_and_says_until_when(shared: Scene) -> None:
    shared.settings("maxExperiments: 2\n")
    until(
        lambda: len(live(shared)) == 2,
        "experiments start again",
        lambda: [shared.context(name) for name in THREE],
    )
    two = live(shared)
    now = WallClock().now()
    since, later = now - timedelta(hours=1), now + timedelta(hours=1)
    window = f"{{name: launch, since: '{since:%Y-%m-%dT%H:%M:%SZ}', until: '{later:%Y-%m-%dT%H:%M:%SZ}'}}"
    shared.settings(f"freezeWindows: [{window}]\n")
    for status in ended(shared, two):
        assert (status["outcome"], status["reason"]) == ("Aborted", "Frozen")
        assert "launch" in status["message"]
    for name in THREE:
        message = waiting(shared, name, "Frozen")
        assert "launch" in message and f"{later:%H:%M}" in message
        assert "launch" in shared.columns(name)["WAITING"]


def test_a_share_of_agents_that_is_less_than_one_lets_no_candidate_run(shared: Scene) -> None:
    shared.settings("maxExposedShare: 0.2\n")
    for name in THREE:
        assert waiting(shared, name, "Capped") == (
            "maxExposedShare 0.2 of 4 agents is less than one: no candidate may run"
        )
    shared.settings("maxExposedShare: 0.25\nmaxExperiments: 1\n")
    [one] = until(
        lambda: live(shared) or None, "one starts", lambda: [shared.context(name) for name in THREE]
    )
    until(lambda: bool(shared.farm.exposed(one)), "a candidate runs", lambda: shared.context(one))
    most = 0
    for _ in range(10):
        shared.ticks(1)
        most = max(most, len(shared.farm.exposed()))
    assert most == 1
