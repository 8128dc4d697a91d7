"""Valid policies that would surprise their author, and what is said about them."""

from typing import Any

import pytest

from kvtune_operator.advice import advice
from tests.fakes.samples import policy

TTL = {"min": "30s", "max": "600s", "largestStep": 4}
MEMORY = {"hostMemory": {"min": "8Gi", "max": "64Gi"}}

SURPRISES: dict[str, tuple[dict[str, Any], str]] = {
    "a limit between boundaries": (
        {"targets": {"ttft": {"limit": "300ms"}}},
        "spec.targets.ttft.limit: 300ms lies between boundaries of vLLM's TTFT histogram:"
        " experiments use 250ms, and whether it is met may stay unknown; use 250ms or 500ms",
    ),
    "a limit above the last boundary": (
        {"targets": {"ttft": {"limit": "2h"}}},
        "use 2560s",
    ),
    "a limit below the first boundary": (
        {"targets": {"ttft": {"limit": "0.5ms"}}},
        "is below vLLM's smallest histogram boundary 1ms",
    ),
    "no latency target": ({"targets": {"hitRate": {"min": 0.3}}}, "nothing guards the latency"),
    "no prices": ({"objective": {}}, "all prices are 0"),
    "memory for nothing": (
        {"objective": {"prices": {"evictionPass": 1}}, "knobs": {"tiers": MEMORY}},
        "spec.objective.prices.memory: is 0: tiers.hostMemory will grow to its max",
    ),
    "a small step": (
        {"knobs": {"cacheTTL": {**TTL, "largestStep": 1.1}}},
        "spec.knobs.cacheTTL.largestStep: 1.1 is small",
    ),
    "nothing to tune": (
        {"knobs": {"cacheTTL": {"min": "30s", "max": "30s"}}},
        "min and max are both 30s: nothing to tune",
    ),
    "no time for an experiment": (
        {"experiment": {"maxDuration": "5m"}},
        "spec.experiment.maxDuration: 5m is less than the shortest experiment takes (540s)",
    ),
    "few pairs": ({"experiment": {"maxPairs": 8}}, "spec.experiment.maxPairs: 8 is few"),
}


@pytest.mark.parametrize("case", sorted(SURPRISES))
def test_a_surprise_is_told(case: str) -> None:
    spec, says = SURPRISES[case]

    told = [str(warning) for warning in advice(policy(**spec))]

    assert any(says in text for text in told), told


def test_a_price_without_its_knob_is_told() -> None:
    told = [str(warning) for warning in advice(policy())]

    assert told == ["spec.objective.prices.memory: has no effect: tiers.hostMemory is not tuned"]


@pytest.mark.parametrize("limit", ["1ms", "250ms", "0.25s", "1s", "2.5s", "2560s"])
def test_a_limit_at_a_boundary_raises_no_warning(limit: str) -> None:
    told = advice(policy(targets={"ttft": {"limit": limit}}))

    assert [warning for warning in told if "ttft" in warning.path] == []


def test_observing_needs_no_time_for_an_experiment() -> None:
    told = advice(policy(mode="Observe", experiment={"maxDuration": "1m"}))

    assert [warning for warning in told if "maxDuration" in warning.path] == []
