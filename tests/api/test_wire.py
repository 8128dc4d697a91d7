"""Messages between control plane and agents: what is not exactly right is refused."""

from typing import Any

import pytest

from kvtune_api.codec import parse
from kvtune_api.errors import SpecError
from kvtune_api.wire import Counters, Histogram, Push

PUSH: dict[str, Any] = {
    "role": "candidate",
    "generation": 3,
    "token": 7,
    "policyUID": "u",
    "leaseSeconds": 30,
    "config": {"cacheTTL": "90s"},
}


def test_a_candidate_carries_a_lease() -> None:
    assert parse(Push, PUSH).lease_seconds == 30


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"leaseSeconds": None}, "leaseSeconds: is required for role candidate"),
        ({"role": "incumbent"}, "leaseSeconds: is not allowed for role incumbent"),
        ({"leaseSeconds": 0}, "leaseSeconds"),
        ({"leaseSeconds": 1e9}, "leaseSeconds"),
        ({"generation": -1}, "generation"),
        ({"token": "seven"}, "token"),
        ({"policyUID": ""}, "policyUID"),
        ({"role": "owner"}, "role"),
        ({"extra": 1}, "extra: unknown field"),
        ({"config": {"cacheTtl": "1s"}}, "config.cacheTtl: unknown field"),
    ],
)
def test_a_wrong_push_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse(Push, {**PUSH, **change})


@pytest.mark.parametrize(
    ("bounds", "counts"),
    [((0.1,), (1.0,)), ((0.2, 0.1), (1.0, 1.0, 1.0)), ((0.1, 0.1), (0.0, 1.0, 1.0)), ((0.1,), (2.0, 1.0))],
)
def test_a_histogram_that_is_not_cumulative_is_refused(
    bounds: tuple[float, ...], counts: tuple[float, ...]
) -> None:
    with pytest.raises(SpecError):
        parse(Histogram, {"bounds": bounds, "counts": counts, "sum": 1.0})


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "many"])
def test_counters_hold_only_counts(value: object) -> None:
    with pytest.raises(SpecError, match="requests"):
        parse(Counters, {"at": 0, "startedAt": 0, "requests": value})


def test_a_counter_that_is_not_kept_is_none_and_not_zero() -> None:
    assert parse(Counters, {"at": 5, "startedAt": 0}).requests is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("config.evictionRatio", True),
        ("config.evictionRatio", "0.1"),
        ("config.storeThreshold", True),
        ("config.storeThreshold", "2"),
        ("generation", True),
        ("token", "1"),
        ("leaseSeconds", "30"),
    ],
)
def test_a_push_takes_no_text_and_no_truth_value_for_a_number(field: str, value: object) -> None:
    body: dict[str, Any] = {
        "role": "candidate",
        "generation": 1,
        "token": 1,
        "policyUID": "p1",
        "config": {},
        "leaseSeconds": 30,
    }
    *parents, name = field.split(".")
    (body[parents[0]] if parents else body)[name] = value

    with pytest.raises(SpecError, match=f"^{field}: must be a number$"):
        parse(Push, body)
