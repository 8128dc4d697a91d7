"""When agents give an eviction policy up, as a policy's author writes it."""

from typing import Any

import pytest

from kvtune_api.codec import parse
from kvtune_api.errors import SpecError
from kvtune_api.eviction_fallback import EvictionFallback


def test_an_empty_object_means_less_than_40_percent_over_5_minutes_until_told() -> None:
    found = parse(EvictionFallback, {})

    assert (found.least_reuse_rate, found.over.seconds, found.return_after) == (0.4, 300.0, None)


@pytest.mark.parametrize(
    "said",
    [{"leastReuseRate": 0}, {"over": "2m"}, {"over": "1h", "returnAfter": "10m"}, {"returnAfter": None}],
)
def test_bounds_are_allowed(said: dict[str, Any]) -> None:
    assert parse(EvictionFallback, said)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"leastReuseRate": 2}, "leastReuseRate: 2: input should be less than 1"),
        ({"leastReuseRate": "40%"}, "leastReuseRate: '40%' is not a number"),
        ({"leastReuseRate": -0.1}, "leastReuseRate: -0.1: input should be greater than or equal to 0"),
        ({"over": "119s"}, "over 119s is less than 2m"),
        ({"over": "61m"}, "over 61m is more than 1h"),
        ({"over": "0s"}, "over: '0s' must be greater than 0s"),
        ({"returnAfter": "0s"}, "returnAfter: '0s' must be greater than 0s"),
        ({"window": "5m"}, "window: unknown field"),
    ],
)
def test_what_cannot_be_is_refused_by_field_and_limit(said: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse(EvictionFallback, said)

    assert words in str(refused.value)
