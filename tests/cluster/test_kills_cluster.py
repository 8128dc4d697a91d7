"""kill -9 of the operator on a real API server, in every phase; back in time, too late, or never."""

import signal
from pathlib import Path

from tests.cluster.farm import BETTER, WORSE, Herd, short
from tests.cluster.world import Object, World, finalizers, is_live, world
from tools.controlplane.access import Access

LONG = {"leaseDuration": "60s"}
PHASES = frozenset(
    {
        "RunIn",
        "Washout",
        "Measuring",
        "AwaitingApproval",
        "Promoting",
        "Watching",
        "RollingBack",
        "Paused",
    }
)
"""Proposed lasts no tick of its own: it is killed within by tests/operator/test_reconcile_kills.py."""

SOON = "--lease=6"
"""A successor waits no longer for the lease of one that was killed."""

TAKE_AWAY = '[{"op":"remove","path":"/metadata/finalizers"}]'


def test_killed_in_every_phase_and_back_within_the_lease_it_comes_to_the_undisturbed_outcome(
    control_plane: Access, namespace: str, tmp_path: Path
) -> None:
    herds = (
        Herd(name="better"),
        Herd(name="asks", gains=BETTER),
        Herd(name="worse", gains=WORSE),
        Herd(name="stopped", agents=4),
    )
    with world(control_plane, namespace, tmp_path, *herds) as there:
        for herd in ("better", "worse", "stopped"):
            there.apply(herd, **short(experiment=LONG))
        there.apply("asks", mode="Recommend", **short(experiment=LONG))
        killed: dict[str, list[str]] = {}
        there.start(SOON)
        while missing := PHASES - killed.keys():
            there.until(lambda: missing & set(there.phases().values()), f"one of {set(missing)} is reached")
            if "RunIn" in killed and "Paused" in missing:
                there.edit("stopped", paused=True)
            if there.phase("asks") == "AwaitingApproval" and "AwaitingApproval" in killed:
                there.annotate("asks", approve="asks-00001")
            phases = kill_in(there, missing)
            if phases:
                killed |= phases
                there.start(SOON)

        promoted, asked, rejected = (there.until_ended(herd) for herd in ("better", "asks", "worse"))
        aborted = there.until_ended("stopped")
        assert there.outcome(promoted) == "Promoted(Superior)"
        assert there.outcome(asked) == "Promoted(Superior)"
        assert there.outcome(rejected) == "Rejected(HarmObjective)"
        assert there.outcome(aborted) == "Aborted(User)"
        for herd, ttl in {"better": "60s", "asks": "60s", "worse": "30s", "stopped": "30s"}.items():
            there.until(lambda herd=herd, ttl=ttl: there.ttls(herd) == {ttl}, f"{herd} runs {ttl}")  # type: ignore[misc]
            there.until(lambda herd=herd: not is_live(there.policies.get(herd)), f"{herd} is free")  # type: ignore[misc]
            assert all(agent["lapses"] == 0 for agent in there.farm.agents(herd).values()), "no lease ended"
        for experiment in (promoted, asked, rejected, aborted):
            there.assert_replays(experiment)
            assert not there.events(experiment["metadata"]["name"], "LeaseLapsed")
        assert there.operators[-1].stop() == 0


def kill_in(there: World, wanted: frozenset[str]) -> dict[str, list[str]]:
    """Kill the operator in phases that are wanted: held first and looked at then. Empty: they were over."""
    operator = there.operators[-1]
    operator.send(signal.SIGSTOP)
    found: dict[str, list[str]] = {}
    for policy, phase in there.phases().items():
        if phase in wanted:
            found.setdefault(phase, []).append(policy)
    if found:
        operator.kill_9()
    else:
        operator.send(signal.SIGCONT)
    return found


def test_too_late_or_never_agents_come_home_by_their_lease_and_users_can_free_what_is_left(
    control_plane: Access, namespace: str, tmp_path: Path
) -> None:
    herds = [Herd(name="late"), *(Herd(name=name, agents=2) for name in ("doomed", "half", "idle"))]
    with world(control_plane, namespace, tmp_path, *herds) as there:
        for herd in ("late", "doomed", "half"):
            there.apply(herd, **short(experiment={"maxPairs": 40}))
        there.apply("idle", mode="Observe", **short())
        operator = there.start()
        killed = {herd: there.until_exposed(herd) for herd in ("late", "doomed", "half")}
        there.until(lambda: all(there.farm.exposed(herd) for herd in killed), "all have candidates")
        operator.kill_9()
        pushes = len(there.farm.pushes())
        for herd in killed:
            there.until_home(herd)
        agents = there.farm.agents()
        assert sum(agent["lapses"] for agent in agents.values()) >= len(killed)
        assert len(there.farm.pushes()) == pushes, "nobody told them"

        there.kubectl("delete", "kvp", "idle", "--timeout=20s")
        assert there.policies.get("idle") is None, "an idle policy goes at once, operator or not"
        for herd in ("doomed", "half"):
            there.kubectl("delete", "kvp", herd, "--wait=false")
            assert is_live(there.policies.get(herd)), "a live one waits"
            there.kubectl("patch", "kvp", herd, "--type=json", "-p", TAKE_AWAY)
            assert there.policies.get(herd) is None
        there.kubectl("patch", "kvx", "doomed-00001", "--type=json", "-p", TAKE_AWAY)
        there.until(lambda: there.experiment("doomed-00001") is None, "the freed experiment goes")
        assert is_live(there.experiment("half-00001")), "nobody has freed this one"

        back = there.start()
        there.until(lambda: there.experiment("half-00001") is None, "the operator's start frees it")
        back.until_said("orphaned experiments freed")
        lapsed(there, killed["late"])
        assert there.operators[-1].stop() == 0


def lapsed(there: World, before: Object) -> None:
    """The block that lost its leases is dropped for all pairs and repeated with new coins."""
    name = before["metadata"]["name"]
    told = there.until(
        lambda: there.events("late", "LeaseLapsed") or there.events(name, "LeaseLapsed"), "told"
    )
    assert told
    done = there.until_ended("late")
    assert there.outcome(done) == "Promoted(Superior)"
    there.assert_replays(done)
    there.until(lambda: there.ttls("late") == {"60s"}, "the winner runs")
    assert not finalizers(there.policies.get("late"))
