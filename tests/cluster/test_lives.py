"""What users do to policies and experiments that live, on a real API server with one operator for all.

All policies begin together and run for as long as nobody ends them; each test then does one thing to its own.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from kvtune_api.codec import dump
from tests.cluster.audited import verbs, writes_of_spec
from tests.cluster.farm import BETTER, Herd, farm, short
from tests.cluster.shared import fresh_namespace
from tests.cluster.world import Object, World, is_live, world
from tests.fakes.samples import experiment
from tools.controlplane.access import Access
from tools.controlplane.errors import Answered

ENDLESS: Any = {"maxPairs": 3000}
OLD = 300
KEPT = 20


@pytest.fixture(scope="module")
def there(control_plane: Access, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world of this file; the second namespace is there to be deleted."""
    folder = tmp_path_factory.mktemp("lives")
    names = ("silent", "removed", "edited", "paused", "erased", "aborted", "orphan", "shared")
    herds = [Herd(name=name, agents=2, gains={}) for name in names]
    herds += [
        Herd(name="old", agents=2),
        Herd(name="tripped", agents=2, gains={}),
        Herd(name="asks", agents=16, gains=BETTER),
    ]
    homeless = Herd(name="homeless", agents=2, gains={})
    with ExitStack() as stack:
        namespace = stack.enter_context(fresh_namespace(control_plane))
        second = stack.enter_context(doomed_namespace(control_plane))
        made = stack.enter_context(world(control_plane, namespace, folder, *herds))
        there = farm(control_plane, second, folder / "second", homeless, operator=namespace)
        made.others = stack.enter_context(there)
        begin(made, names)
        made.start(f"--watch-namespaces={namespace},{second}").until_stage("Leading")
        yield made
        made.revive()
        assert made.operators[-1].stop() == 0
        assert not any("bug" in operator.err for operator in made.operators)


@contextmanager
def doomed_namespace(access: Access) -> Iterator[str]:
    """A namespace that its test may delete."""
    with suppress(Answered), fresh_namespace(access) as name:
        yield name


def begin(there: World, names: tuple[str, ...]) -> None:
    """Apply every policy."""
    for name in names:
        retention = "Orphan" if name == "orphan" else "Delete"
        there.apply(name, **short(experiment=ENDLESS, retention=retention))
    there.apply("old", mode="Observe", historyLimit=300, **short())
    pausing = {**ENDLESS, "onGuardrail": "RollbackAndPause"}
    there.apply("tripped", **short(experiment=pausing))
    there.apply("asks", mode="Recommend", **short())
    there.elsewhere().apply("homeless", **short(experiment=ENDLESS))


def test_a_policy_that_is_deleted_goes_once_its_agents_are_home(there: World) -> None:
    there.until_exposed("removed")

    there.kubectl("delete", "kvp", "removed", "--timeout=60s")

    assert there.farm.exposed("removed") == []
    assert there.ttls("removed") == {"30s"}
    there.until(lambda: there.experiments("removed") == [], "its experiments go with it")


def test_case_38_a_policy_whose_agents_are_silent_goes_in_bounded_time_with_a_warning(there: World) -> None:
    there.until_exposed("silent")
    there.farm.switch(list(there.farm.agents("silent")), "down", True)

    there.kubectl("delete", "kvp", "silent", "--timeout=60s")

    told = there.until(lambda: there.events("silent", "RollbackLate"), "a warning")
    assert "did not confirm the incumbent in time; their lease has ended" in told[0]


def test_case_21_an_edit_ends_the_experiment_and_the_next_one_has_the_new_spec(there: World) -> None:
    there.until_exposed("edited")

    there.edit("edited", experiment={"minRequests": 11})

    ended = there.until_ended("edited")
    assert there.outcome(ended) == "Aborted(Superseded)"
    there.until(lambda: len(there.experiments("edited")) == 2, "the next one starts")
    old, new = (item["spec"]["policyHash"] for item in there.experiments("edited"))
    assert old != new


def test_pausing_ends_the_experiment_and_going_on_begins_another(there: World) -> None:
    there.until_exposed("paused")

    there.edit("paused", paused=True)

    assert there.outcome(there.until_ended("paused")) == "Aborted(User)"
    there.until_phase("paused", "Paused")
    assert there.farm.exposed("paused") == []
    there.until(lambda: not is_live(there.policies.get("paused")), "a paused policy has no finalizer")
    there.edit("paused", paused=False)
    there.until(lambda: len(there.experiments("paused")) == 2, "it goes on")


def test_an_experiment_object_that_is_deleted_ends_the_experiment_and_goes(there: World) -> None:
    name = there.until_exposed("erased")["metadata"]["name"]

    there.kubectl("delete", "kvx", name, "--timeout=60s")

    assert there.experiment(name) is None
    assert there.farm.exposed("erased") == []
    told = there.until(lambda: there.events(name, "ExperimentEnded"), "an event")
    assert "the experiment was deleted" in told[0]


def test_case_24_abort_and_try_are_annotations_that_go_once_done(there: World) -> None:
    running = there.until_exposed("aborted")["metadata"]["name"]
    there.annotate("aborted", try_='{"cacheTTL":"45s"}')
    there.annotate("aborted", abort=running)

    assert there.outcome(there.until_ended("aborted")) == "Aborted(User)"
    there.until(lambda: len(there.experiments("aborted")) == 2, "the next one starts")
    assert there.experiments("aborted")[1]["spec"]["candidate"]["cacheTTL"] == "45s"
    there.until(lambda: not there.annotations("aborted"), "the annotations are gone")


def test_agents_that_fell_back_run_their_policy_again_by_an_annotation(there: World) -> None:
    names = sorted(there.farm.agents("aborted"))
    there.farm.fall_back(names)
    there.until(lambda: there.events("aborted", "EvictionFallback"), "a warning")
    there.annotate("aborted", restore="all")

    there.until(lambda: len(there.events("aborted", "EvictionRestored")) == 2, "an event for each")
    assert {line.split(": ")[1] for line in there.events("aborted", "EvictionRestored")} == set(names)
    there.until(lambda: not there.annotations("aborted"), "the annotation is gone")


def test_experiments_with_retention_orphan_outlive_their_policy(there: World) -> None:
    there.until_exposed("orphan")

    there.kubectl("delete", "kvp", "orphan", "--timeout=60s")

    left = there.until_ended("orphan")
    assert there.outcome(left) == "Aborted(Superseded)"
    assert "ownerReferences" not in left["metadata"]
    there.assert_replays(left)
    there.kubectl("delete", "kvx", left["metadata"]["name"], "--timeout=20s")


def test_the_younger_of_two_policies_leaves_contested_agents_alone_and_says_so(there: World) -> None:
    elder = there.policies.get("shared")
    assert elder is not None
    there.until_exposed("shared")
    there.apply("younger", **short(selector={"agents": {"matchLabels": {"app": "shared"}}}))

    condition = there.until(lambda: there.policies.condition("younger", "Exclusive"), "it is said")

    assert condition["status"] == "False"
    assert condition["reason"] == "OverlappingSelector"
    assert "shared" in condition["message"]
    assert {item["push"]["policyUID"] for item in there.farm.pushes("shared")} == {elder["metadata"]["uid"]}
    assert there.experiments("younger") == []
    there.kubectl("delete", "kvp", "shared", "--timeout=60s")
    there.until(
        lambda: there.policies.condition("younger", "Exclusive").get("status") != "False",
        "the agents are free",
    )


def test_a_namespace_that_is_deleted_takes_its_live_experiment_along(there: World) -> None:
    second = there.elsewhere()
    second.until(lambda: second.farm.exposed(), "candidates in the other namespace")

    there.access.call("DELETE", f"/api/v1/namespaces/{second.namespace}")

    path = f"/api/v1/namespaces/{second.namespace}"
    there.until(lambda: not there.access.reads(path), "the namespace is gone")
    second.until(lambda: not second.farm.exposed(), "agents are home, if only by their leases")


def test_case_22_a_guardrail_may_pause_and_an_annotation_goes_on(there: World) -> None:
    there.until_exposed("tripped")
    first = there.farm.exposed("tripped")

    def just_begun() -> list[str]:
        """The candidates of an epoch that has only begun: they stay so for longer than the breaker waits."""
        exposed = there.farm.exposed("tripped")
        return exposed if len(exposed) == len(first) and not set(exposed) & set(first) else []

    silent = there.until(just_begun, "an epoch with the arms changed")
    there.farm.switch(silent, "down", True)

    ended = there.until_ended("tripped")

    assert there.outcome(ended) == "RolledBack(Breaker)"
    there.until_phase("tripped", "Paused")
    there.farm.switch(silent, "down", False)
    assert there.ttls("tripped") == {"30s"}
    assert there.events("tripped", "GuardrailTripped")
    assert not is_live(there.policies.get("tripped"))
    there.annotate("tripped", resume="yes")
    there.until_phase("tripped", "Idle", "Proposed", "RunIn", "Washout")
    there.until(lambda: not there.annotations("tripped"), "the annotation is gone")


def test_case_43_a_winner_is_promoted_once_it_is_approved_and_no_spec_is_ever_written(there: World) -> None:
    before = there.policies.get("asks")
    there.until_phase("asks", "AwaitingApproval")
    assert there.farm.exposed("asks") == []
    there.annotate("asks", approve="asks-00001")

    assert there.outcome(there.until_ended("asks")) == "Promoted(Superior)"
    after = there.policies.get("asks")
    assert before is not None and after is not None
    assert after["spec"] == before["spec"]
    assert after["metadata"]["generation"] == 1
    told_30_before = thirties(there)
    there.kubectl("delete", "kvp", "asks", "--timeout=20s")
    there.apply("asks", **started_at(start="60s"))
    there.policies.until_accepted("asks")
    assert there.ttls("asks") == {"60s"}
    assert thirties(there) == told_30_before, "case 29: a policy that names the winner as start begins there"
    for policy in there.access.call("GET", there.policies.path)["items"]:
        for entry in policy["metadata"]["managedFields"]:
            if entry.get("subresource") == "status":
                assert "f:spec" not in entry["fieldsV1"], policy["metadata"]["name"]
    assert not writes_of_spec(there)


def thirties(there: World) -> int:
    """How often agents of `asks` were told to run the old incumbent."""
    return sum(item["push"]["config"]["cacheTTL"] == "30s" for item in there.farm.pushes("asks"))


def started_at(*, start: str) -> Object:
    """The short policy with another start."""
    spec = short(paused=True)
    spec["knobs"] = {"cacheTTL": {**spec["knobs"]["cacheTTL"], "start": start}}
    return spec


def test_case_41_three_hundred_old_experiments_are_pruned_and_then_cost_nothing(there: World) -> None:
    there.until(lambda: there.policies.condition("old", "Accepted").get("status") == "True", "accepted")
    listed = {"kind": "List", "apiVersion": "v1", "items": olds(uid_of(there, "old"))}
    there.kubectl("create", "-f", "-", stdin=json.dumps(listed))
    before = verbs(there)

    there.edit("old", historyLimit=KEPT)
    there.until(lambda: len(there.experiments("old")) == KEPT, "old ones are pruned")

    there.until(lambda: owned(there) == KEPT, "the rest has its owner")
    after = verbs(there)
    assert after["delete"] - before["delete"] == OLD - KEPT
    assert there.experiments("old")[0]["metadata"]["name"] == f"old-{OLD - KEPT + 1:05}"


def uid_of(there: World, policy: str) -> str:
    """A policy's uid."""
    held = there.policies.get(policy)
    assert held is not None
    return str(held["metadata"]["uid"])


def olds(uid: str) -> list[Object]:
    """Experiments of long ago, made for a policy and owned by nobody."""
    template = dump(experiment(of="old").spec, packed=True)
    head = {"apiVersion": "kvtune.dev/v1alpha1", "kind": "KVCacheExperiment"}
    labels = {"kvtune.dev/policy": "old", "kvtune.dev/policy-uid": uid}
    return [
        {
            **head,
            "metadata": {"name": f"old-{number:05}", "labels": labels},
            "spec": {**template, "number": number},
        }
        for number in range(1, OLD + 1)
    ]


def owned(there: World) -> int:
    """How many experiments of `old` have their owner."""
    return sum("ownerReferences" in item["metadata"] for item in there.experiments("old"))
