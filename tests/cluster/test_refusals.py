"""Wrong policies at `kubectl apply`: the API server refuses them in words, just as `kvtune validate` does.

What kubectl says to the ten likeliest mistakes stands in docs/policy.md, and is compared here. After a change
of words: `KVTUNE_RECORD=1 python -m pytest tests/cluster/test_refusals.py && make gen`.
"""

import copy
import json
import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtune_api.errors import SpecError
from kvtune_api.policy import cluster_problems
from kvtune_operator.documents import policy_in
from tests.cluster.fixtures import Kubectl
from tests.cluster.wrong_policies import (
    TEN,
    Document,
    Mistake,
    document,
    documents,
    durations,
    fields,
    full,
    knob,
    named,
    put,
    quantities,
    violations,
)
from tools.controlplane.access import Access
from tools.crd.definitions import policy_crd

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tools" / "crd" / "refusals.json"
SPEC: Mapping[str, Any] = policy_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][
    "spec"
]

# Each example is one request; the fixture is a server for all of them, not a state that they share.
examples = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def whole(value: Any) -> Any:
    """Plain data as kubectl sends it: a number without a fraction is written without a point."""
    match value:
        case float() if value.is_integer() and abs(value) < 2**63:
            return int(value)
        case dict():
            return {key: whole(item) for key, item in value.items()}
        case list():
            return [whole(item) for item in value]
    return value


Server = Callable[[Document], str]


@pytest.fixture
def server(control_plane: Access, namespace: str) -> Iterator[Server]:
    """Why the API server refuses to create a policy, as `kubectl apply --dry-run=server` asks; or nothing.

    One connection for all requests of a test: there are hundreds.
    """
    place = f"/apis/kvtune.dev/v1alpha1/namespaces/{namespace}/kvcachepolicies"
    headers = {"Authorization": f"Bearer {control_plane.admin_token}", "Content-Type": "application/json"}
    address = urlsplit(control_plane.url)
    trusted = ssl.create_default_context(cafile=str(control_plane.ca_file))
    with closing(
        HTTPSConnection(str(address.hostname), address.port, timeout=30, context=trusted)
    ) as connection:

        def says(policy: Document) -> str:
            body = json.dumps(whole(policy))
            connection.request("POST", f"{place}?dryRun=All&fieldValidation=Strict", body, headers)
            answer = connection.getresponse()
            said = json.loads(answer.read())
            return "" if answer.status == HTTPStatus.CREATED else str(said["message"])

        yield says


def validate_says(policy: Document) -> str:
    """Why `kvtune validate` refuses a policy, or nothing."""
    try:
        return "; ".join(map(str, cluster_problems(policy_in(json.dumps(policy)))))
    except SpecError as error:
        return str(error)


def assert_same(server: Server, policy: Document) -> None:
    """Assert that both refuse, or both accept; and that no rule failed instead of refusing."""
    refused, validate = server(policy), validate_says(policy)

    assert bool(refused) == bool(validate), (
        f"server: {refused or 'accepted'}\nvalidate: {validate or 'accepted'}"
    )
    assert "evaluating rule" not in refused


@pytest.mark.parametrize("mistake", TEN, ids=[mistake.name for mistake in TEN])
def test_kubectl_says_what_the_documentation_says_it_says(
    mistake: Mistake, namespace: str, kubectl: Kubectl
) -> None:
    done = kubectl("apply", "-n", namespace, "-f", "-", stdin=yaml.safe_dump(mistake.policy()))
    said = done.stderr.strip().replace('"STDIN"', '"policy.yaml"')

    assert done.returncode != 0
    assert mistake.expected in said
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if os.environ.get("KVTUNE_RECORD") == "1":
        recorded[mistake.name] = {"written": mistake.written, "said": said}
        order = [each.name for each in TEN]
        kept = {name: recorded[name] for name in order if name in recorded}
        RECORDED.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")
    assert recorded[mistake.name] == {"written": mistake.written, "said": said}


@pytest.mark.parametrize("mistake", TEN, ids=[mistake.name for mistake in TEN])
def test_validate_refuses_the_ten_too(mistake: Mistake) -> None:
    assert validate_says(mistake.policy()) != ""


def test_the_full_policy_that_limits_are_tried_on_is_right(server: Server) -> None:
    assert server(full()) == ""
    assert validate_says(full()) == ""


def test_every_limit_of_every_field_is_refused_by_the_server_and_by_validate(server: Server) -> None:
    silent = []
    for path, field in fields(SPEC):
        for value in violations(field):
            policy = copy.deepcopy(full())
            put(policy["spec"], path, value)
            place = ".".join(("spec", *path))
            said = server(policy)
            if place not in said or "evaluating rule" in said or not validate_says(policy):
                silent.append(f"{place}: {str(value)[:60]} -> {said or 'accepted'}")

    assert silent == []


SAME: dict[str, Document] = {
    "as small as it may be": document(),
    "everything": full(),
    "a null is absent": document(mode=None, experiment={"alpha": None}),
    "a null is absent where something is required": document(targets={"ttft": {"limit": None}}),
    "a null under an unknown name": document(misspelt=None),
    "a null in a map": document(selector={"agents": {"matchLabels": {"app": None}}}),
    "start at min": knob(start="30s"),
    "start at max": knob(start="600s"),
    "start above max by a nanosecond": knob(start="600s0.000001ms"),
    "min equals max in other units": knob(min="60m", max="1h"),
    "a lease of 3s": document(experiment={"leaseDuration": "3000ms"}),
    "a lease below 3s": document(experiment={"leaseDuration": "2999ms"}),
    "a lease of 10m": document(experiment={"leaseDuration": "600s"}),
    "a lease above 10m": document(experiment={"leaseDuration": "10m0.001ms"}),
    "a lease of two days": document(experiment={"leaseDuration": "48h"}),
    "alpha as a whole number below its least": document(experiment={"alpha": 0}),
    "a quantile as a whole number below its least": document(
        targets={"ttft": {"limit": "250ms", "quantile": 0}}
    ),
    "as many pairs as at most": document(experiment={"minPairs": 24, "maxPairs": 24}),
    "more pairs than the default allows": document(experiment={"minPairs": 25}),
    "a whole number with a point": document(experiment={"minPairs": 9.0}),
    "a number as text": document(experiment={"alpha": "0.05"}),
    "a truth value as text": document(paused="true"),
    "a truth value as a number": document(experiment={"minPairs": True}),
    "one EiB": document(knobs={"tiers": {"hostMemory": {"min": "1Gi", "max": "1Ei"}}}),
    "just more than one EiB": document(knobs={"tiers": {"hostMemory": {"min": "1Gi", "max": "1.000001Ei"}}}),
    "no address": document(selector={"addresses": []}),
    "$agents": document(metrics={"prometheus": {"queries": {"requests": "x{$agents}"}}}),
    "$ at an end": document(metrics={"prometheus": {"queries": {"requests": 'x{pod=~"a$"}'}}}),
    "$another": document(metrics={"prometheus": {"queries": {"requests": "x{$agents,$another}"}}}),
    "$agents2": document(metrics={"prometheus": {"queries": {"requests": "x{$agents2}"}}}),
    "stall alone": document(targets={"stall": {"max": 0.1}}),
    "tiers alone": document(knobs={"tiers": {}}),
    "a label's name without its own part": document(
        selector={"nodes": {"matchLabels": {"example.com/": "x"}}}
    ),
    "a label's name of 63 characters": document(selector={"nodes": {"matchLabels": {"a" * 63: "x"}}}),
    "a label's name of 64 characters": document(selector={"nodes": {"matchLabels": {"a" * 64: "x"}}}),
    "a series' label of 63 characters": document(metrics={"prometheus": {"matchers": {"a" * 63: "x"}}}),
    "a series' label of 64 characters": document(metrics={"prometheus": {"matchers": {"a" * 64: "x"}}}),
    "a name of 57 characters": named("a" * 57),
    "a name of 58 characters": named("a" * 58),
    "a name with a part that is empty": named("a..b"),
}


@pytest.mark.parametrize("policy", SAME.values(), ids=SAME.keys())
def test_validate_refuses_what_the_server_refuses(policy: Document, server: Server) -> None:
    assert_same(server, policy)


@examples
@given(policy=documents(SPEC))
def test_validate_refuses_random_specs_as_the_server_does(policy: Document, server: Server) -> None:
    assert_same(server, policy)


@examples
@given(low=durations(), high=durations(), rest=durations())
def test_both_read_durations_alike(low: str, high: str, rest: str, server: Server) -> None:
    for policy in (knob(min=low), knob(min=low, max=high), document(experiment={"cooldown": rest})):
        assert_same(server, policy)


@examples
@given(low=quantities(), high=quantities() | st.just("1Ei"))
def test_both_read_quantities_alike(low: str, high: str, server: Server) -> None:
    assert_same(server, document(knobs={"tiers": {"hostMemory": {"min": low, "max": high}}}))


def test_an_unknown_variable_of_a_query_is_named_with_its_field(server: Server) -> None:
    """argo-rollouts#872: a variable that nobody fills in left a run waiting for ever."""
    policy = SAME["$another"]

    for said in (server(policy), validate_says(policy)):
        assert "spec.metrics.prometheus.queries.requests" in said
        assert "$another is not known in a query, only $agents is" in said
