"""Objects of an API server that another version, or a hand, has left in a form that is not ours."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_api.codec import dump
from kvtune_api.errors import Unavailable
from kvtune_api.metadata import Metadata
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import PolicyStatus
from kvtune_operator.adapters.kubernetes_forms import (
    UnreadableStatus,
    age,
    annotation_removed,
    commands_in,
    experiment_body,
    experiment_in,
    experiment_status_body,
    experiments_path,
    finalizer_removed,
    made_for,
    policy_in,
    policy_status_body,
    wish_in,
)
from kvtune_operator.ports import Invalid
from kvtune_tuner.model import Verb
from tests.fakes.samples import experiment, policy

METADATA: dict[str, Any] = {
    "name": "chat",
    "namespace": "x",
    "uid": "u",
    "resourceVersion": "7",
    "generation": 2,
    "managedFields": [{"manager": "kubectl"}],
}


def raw(**parts: Any) -> dict[str, Any]:
    return {**dump(policy()), "metadata": METADATA, **parts}


def test_a_policy_is_read_with_what_we_know_of_its_metadata() -> None:
    found = policy_in(raw())

    assert isinstance(found, KVCachePolicy)
    assert found.spec == policy().spec
    assert found.metadata == Metadata(name="chat", namespace="x", uid="u", resource_version="7", generation=2)
    assert found.status is None


def test_fields_of_a_newer_definition_are_left_out() -> None:
    spec = {**dump(policy().spec), "ofTheFuture": {"a": 1}}
    status = {**dump(PolicyStatus(agents=3)), "ofTheFuture": [1]}

    found = policy_in(raw(spec=spec, status=status))

    assert isinstance(found, KVCachePolicy)
    assert found.spec == policy().spec
    assert found.status == PolicyStatus(agents=3)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({**dump(policy().spec), "mode": "Fast"}, "spec.mode: "),
        ({**dump(policy().spec), "knobs": {}}, "spec.knobs: at least one knob is needed"),
        ({}, "spec.targets: is required"),
        ("text", "spec: must be an object"),
    ],
)
def test_a_spec_that_slipped_through_is_invalid_with_its_field(spec: object, problem: str) -> None:
    found = policy_in(raw(spec=spec, status=dump(PolicyStatus(agents=3), packed=True)))

    assert isinstance(found, Invalid)
    assert problem in str(found.error)
    assert found.metadata.generation == 2
    assert found.status == PolicyStatus(agents=3), "its status is not lost"


@pytest.mark.parametrize(
    ("status", "field"),
    [({"phase": "Dancing"}, "status.phase"), ({"trials": "H4s"}, "status.trials"), ([1], "status: must be")],
)
def test_a_status_that_cannot_be_read_is_never_taken_for_none(status: object, field: str) -> None:
    with pytest.raises(UnreadableStatus, match=f"policy chat: .* kept as it is: {field}"):
        policy_in(raw(status=status))


def test_an_object_without_metadata_is_unavailable() -> None:
    for bad in ({}, {"metadata": None}, {"metadata": {"name": "A B"}}, {"metadata": [1]}):
        with pytest.raises(Unavailable, match="no readable metadata"):
            policy_in({**raw(), "metadata": None} | bad)


def test_an_experiment_reads_as_it_was_written_whatever_its_conditions_say() -> None:
    made = experiment(rows=20)
    created = experiment_body(made, "x")
    written = experiment_status_body(made)

    found = experiment_in({**created, "metadata": METADATA, "status": written["status"]})

    assert written["status"]["conditions"]
    assert isinstance(written["status"]["rows"], str)
    assert (found.spec, found.status) == (made.spec, made.status)


def test_no_status_that_is_written_holds_an_empty_list_or_mapping() -> None:
    made = experiment()

    assert "restarted" not in experiment_status_body(made)["status"]
    assert isinstance(experiment_status_body(made)["status"]["epoch"], str)
    assert "conditions" not in policy_status_body(policy(), PolicyStatus())["status"]
    assert "spec" not in policy_status_body(policy(), PolicyStatus()), "the spec is the user's"


@given(st.text(max_size=50))
def test_any_annotation_is_a_command_or_told_to_be_none(value: str) -> None:
    annotations = {"kvtune.dev/try": value, "kvtune.dev/abort": value, "other": value}

    found, bad = commands_in(Metadata(name="chat", annotations=annotations))

    assert len(found) + len(bad) == 2
    assert found[0].verb is Verb.ABORT
    for id_ in [command.id for command in found] + [wish.id for wish in bad]:
        name, key, held = wish_in(id_)
        assert (name, annotations[key]) == ("chat", held)


@pytest.mark.parametrize(("value", "target"), [("all", ""), ("", ""), ("yes", ""), (" chat-0 ", "chat-0")])
def test_the_annotation_to_restore_names_an_agent_or_all(value: str, target: str) -> None:
    (command,), bad = commands_in(Metadata(name="chat", annotations={"kvtune.dev/restore": value}))

    assert (command.verb, command.target, bad) == (Verb.RESTORE, target, ())


def test_an_annotation_is_removed_from_the_version_that_was_read_whatever_its_value() -> None:
    steps = annotation_removed(Metadata(name="chat", resource_version="7"), "kvtune.dev/try")

    assert steps == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "remove", "path": "/metadata/annotations/kvtune.dev~1try"},
    ]


def test_an_experiment_says_for_which_policy_it_was_made() -> None:
    made = experiment()
    uid = made.spec.policy_uid
    created = experiment_body(made, "x")
    by_owner = {"metadata": {"ownerReferences": created["metadata"]["ownerReferences"]}}

    assert made_for(created) == made_for(by_owner) == uid
    assert made_for({"metadata": {}}) is None


def test_our_finalizer_is_removed_where_it_stands() -> None:
    steps = finalizer_removed(("a/b", "kvtune.dev/experiment"))

    assert [step["path"] for step in steps] == ["/metadata/finalizers/1"] * 2


def test_the_experiments_of_all_namespaces_have_a_path_of_their_own() -> None:
    assert experiments_path(None) == "/apis/kvtune.dev/v1alpha1/kvcacheexperiments"
    assert experiments_path("x") == "/apis/kvtune.dev/v1alpha1/namespaces/x/kvcacheexperiments"


def test_experiments_are_sorted_by_number() -> None:
    assert sorted(["chat-10", "chat-9", "odd", "chat-2-1"], key=age) == [
        "odd",
        "chat-2-1",
        "chat-9",
        "chat-10",
    ]
