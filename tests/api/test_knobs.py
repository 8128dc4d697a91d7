"""A knob is born once: numbers and configurations are the same thing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_api.codec import dump, parse
from kvtune_api.errors import SpecError
from kvtune_api.knobs import (
    CacheConfig,
    EvictionPolicy,
    Knob,
    config,
    number_of,
    point,
    rounded,
    written,
)

POINTS = st.fixed_dictionaries(
    {},
    optional={
        Knob.CACHE_TTL: st.floats(0.1, 1e6),
        Knob.EVICTION_RATIO: st.floats(0.001, 1.0),
        Knob.HOST_MEMORY: st.floats(2**20, 2**45),
        Knob.EVICTION_POLICY: st.sampled_from(EvictionPolicy).map(number_of),
        Knob.STORE_THRESHOLD: st.integers(1, 100).map(float),
    },
)


@given(POINTS)
def test_a_point_becomes_a_configuration_and_back(values: dict[Knob, float]) -> None:
    assert point(config(values)) == pytest.approx(rounded(values))
    assert config(point(config(values))) == config(values)


@given(POINTS)
def test_rounding_twice_changes_nothing(values: dict[Knob, float]) -> None:
    assert rounded(rounded(values)) == rounded(values)


@pytest.mark.parametrize("knob", list(Knob))
def test_every_knob_is_in_the_configuration_under_its_path(knob: Knob) -> None:
    plain = dump(config({knob: 2.0**30 if knob is Knob.HOST_MEMORY else 0.5}))
    for part in knob.split("."):
        plain = plain[part]
    assert plain


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"evictionRatio": 0}, "evictionRatio"),
        ({"evictionRatio": 1.01}, "evictionRatio"),
        ({"cacheTTL": "0s"}, "cacheTTL"),
        ({"tiers": {"hostMemory": "0"}}, "tiers.hostMemory"),
        ({"tiers": {"disk": "1Gi"}}, "tiers.disk"),
        ({"ttl": "1s"}, "ttl"),
        ({"evictionPolicy": "MRU"}, "evictionPolicy"),
        ({"storeThreshold": 0}, "storeThreshold"),
        ({"storeThreshold": 1.5}, "storeThreshold"),
    ],
)
def test_a_wrong_knob_is_named(data: dict[str, object], path: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(CacheConfig, data)
    assert [problem.path for problem in caught.value.problems] == [path]


def test_values_are_written_as_users_write_them() -> None:
    assert written(Knob.CACHE_TTL, 420.0) == "420s"
    assert written(Knob.EVICTION_RATIO, 0.1) == "0.1"
    assert written(Knob.HOST_MEMORY, 57 * 2.0**30) == "57Gi"
    assert written(Knob.EVICTION_POLICY, number_of(EvictionPolicy.ARC)) == "ARC"
    assert written(Knob.STORE_THRESHOLD, 2.0) == "2"


def test_a_configuration_without_the_newer_knobs_is_written_as_before_there_were_any() -> None:
    older = {"cacheTTL": "30s", "evictionRatio": 0.3, "tiers": {"hostMemory": "57Gi"}}

    assert dump(parse(CacheConfig, older)) == older
