"""Policies: ten lines are enough, and wrong ones are refused with path, value and limit."""

from typing import Any

import pytest

from kvtune_api.codec import dump, parse
from kvtune_api.errors import SpecError
from kvtune_api.policy import KVCachePolicy, Mode, Strategy


def _policy(**spec: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "targets": {"ttft": {"limit": "250ms"}},
        "knobs": {"cacheTTL": {"min": "30s", "max": "10m"}},
    }
    return {"kind": "KVCachePolicy", "metadata": {"name": "chat"}, "spec": {**base, **spec}}


def test_ten_lines_are_enough() -> None:
    spec = parse(KVCachePolicy, _policy()).spec

    assert (spec.mode, spec.strategy, spec.paused) == (Mode.AUTO, Strategy.AUTO, False)
    assert (spec.experiment.alpha, spec.experiment.min_pairs, spec.experiment.max_pairs) == (0.05, 8, 24)
    assert spec.experiment.window.min.seconds == 120
    assert spec.experiment.washout.min.seconds == 20


def test_a_policy_reads_back_what_it_was_written_as() -> None:
    policy = parse(KVCachePolicy, _policy())

    assert parse(KVCachePolicy, dump(policy)) == policy


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no target": ({"targets": {}}, "spec.targets: at least one target is needed"),
    "no knob": ({"knobs": {}}, "spec.knobs: at least one knob is needed"),
    "min above max": (
        {"knobs": {"cacheTTL": {"min": "10m", "max": "30s"}}},
        "spec.knobs.cacheTTL: min 10m is greater than max 30s",
    ),
    "start outside": (
        {"knobs": {"cacheTTL": {"min": "30s", "max": "60s", "start": "5s"}}},
        "spec.knobs.cacheTTL: start 5s is outside 30s to 60s",
    ),
    "step of one": (
        {"knobs": {"evictionRatio": {"min": 0.1, "max": 0.3, "largestStep": 1}}},
        "spec.knobs.evictionRatio.largestStep: input should be greater than 1",
    ),
    "unknown mode": ({"mode": "auto"}, "spec.mode: 'auto': input should be 'Observe'"),
    "unknown field": ({"pause": True}, "spec.pause: unknown field"),
    "pairs in disorder": (
        {"experiment": {"minPairs": 30, "maxPairs": 20}},
        "spec.experiment: minPairs 30 is greater than maxPairs 20",
    ),
    "alpha too large": ({"experiment": {"alpha": 0.5}}, "spec.experiment.alpha"),
    "lease too short": (
        {"experiment": {"leaseDuration": "1s"}},
        "spec.experiment: leaseDuration 1s is less than 3s",
    ),
    "lease too long": (
        {"experiment": {"leaseDuration": "48h"}},
        "spec.experiment: leaseDuration 48h is more than 10m",
    ),
    "window bounds": (
        {"experiment": {"window": {"min": "10m", "max": "2m"}}},
        "spec.experiment.window: min 10m is greater than max 2m",
    ),
    "an address without scheme": (
        {"selector": {"addresses": ["127.0.0.1:9000"]}},
        "spec.selector.addresses[0]",
    ),
    "a quantile of one": (
        {"targets": {"ttft": {"quantile": 1, "limit": "250ms"}}},
        "spec.targets.ttft.quantile: input should be less than 1",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_policy_is_refused_with_path_and_limit(name: str) -> None:
    spec, expected = WRONG[name]

    with pytest.raises(SpecError) as caught:
        parse(KVCachePolicy, _policy(**spec))

    assert any(str(problem).startswith(expected) for problem in caught.value.problems), str(caught.value)


def test_a_name_that_kubernetes_would_refuse_is_refused() -> None:
    with pytest.raises(SpecError, match=r"metadata\.name: 'Chat'"):
        parse(KVCachePolicy, {**_policy(), "metadata": {"name": "Chat"}})


def test_another_kind_is_refused() -> None:
    with pytest.raises(SpecError, match="kind"):
        parse(KVCachePolicy, {**_policy(), "kind": "Deployment"})
