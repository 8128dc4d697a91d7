"""One way in and out of JSON: paths, all problems at once, and no NaN."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_api.codec import camel, canonical, digest, dump, frozen, parse, parse_json
from kvtune_api.errors import SpecError
from kvtune_api.finite import finite
from kvtune_api.knobs import CacheConfig
from kvtune_api.units import Duration


@frozen
class _Leaf:
    """A leaf."""

    policy_uid: str
    count: int = 0


@frozen
class _Tree:
    """A tree."""

    cache_ttl: float = 0.0
    leaves: tuple[_Leaf, ...] = ()
    other: str | None = None


@pytest.mark.parametrize(
    ("name", "outside"),
    [("cache_ttl", "cacheTTL"), ("policy_uid", "policyUID"), ("ttft", "ttft"), ("min_pairs", "minPairs")],
)
def test_fields_have_one_outside_name(name: str, outside: str) -> None:
    assert camel(name) == outside


def test_everything_wrong_is_said_at_once_with_its_path() -> None:
    data = {"cacheTTL": "x", "leaves": [{"policyUID": "a", "count": "many"}, {}], "typo": 1}

    with pytest.raises(SpecError) as caught:
        parse(_Tree, data, root="spec")

    paths = {problem.path for problem in caught.value.problems}
    assert paths == {"spec.cacheTTL", "spec.leaves[0].count", "spec.leaves[1].policyUID", "spec.typo"}


def test_a_missing_field_and_an_unknown_one_are_named_as_such() -> None:
    with pytest.raises(SpecError, match=r"leaves\[0\]\.policyUID: is required") as caught:
        parse(_Tree, {"leaves": [{}], "x": 1})
    assert any(str(problem) == "x: unknown field" for problem in caught.value.problems)


@pytest.mark.parametrize("data", [None, 3, "text", [], [1]])
def test_what_is_no_object_is_refused_in_one_sentence(data: object) -> None:
    with pytest.raises(SpecError, match="must be an object"):
        parse(_Tree, data, root="spec")


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'{"cacheTTL": NaN}', b'{"cacheTTL": Infinity}'])
def test_broken_json_is_a_spec_error(text: bytes) -> None:
    with pytest.raises(SpecError):
        parse_json(_Tree, text)


def test_nothing_leaves_that_json_cannot_say() -> None:
    data = finite({"a": math.nan, "b": [math.inf, 1.0], "c": {"d": -math.inf}})

    assert json.loads(json.dumps(data, allow_nan=False)) == {"a": None, "b": [None, 1.0], "c": {"d": None}}


def test_unset_fields_are_left_out() -> None:
    assert dump(_Tree()) == {"cacheTTL": 0.0, "leaves": []}


@given(st.lists(st.tuples(st.text(max_size=5), st.integers(-5, 5)), max_size=4), st.floats(-1e6, 1e6))
def test_what_is_dumped_parses_to_the_same(leaves: list[tuple[str, int]], ttl: float) -> None:
    value = _Tree(cache_ttl=ttl, leaves=tuple(_Leaf(policy_uid=u, count=c) for u, c in leaves))

    assert parse_json(_Tree, canonical(value)) == value


def test_the_digest_is_of_the_value_not_of_its_order() -> None:
    one = parse(CacheConfig, {"cacheTTL": "90s", "evictionRatio": 0.1})
    two = parse(CacheConfig, {"evictionRatio": 0.1, "cacheTTL": "90s"})

    assert digest(one) == digest(two) != digest(CacheConfig(cache_ttl=Duration("91s")))
