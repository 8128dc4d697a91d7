"""Ten wrong policies, one at a time: each refusal names line, field, value and limit, and is no traceback."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.policies import quick, write_policy
from tests.e2e.processes import kvtune


def changed(path: str, value: Any) -> dict[str, Any]:
    """The quick policy with one field replaced."""
    document = quick()
    *parents, last = path.split(".")
    part = document
    for name in parents:
        part = part.setdefault(name, {})
    part[last] = value
    return document


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a share above 1": (
        changed("spec.targets.ttft.quantile", 1.5),
        "spec.targets.ttft.quantile: 1.5: input should be less than 1",
    ),
    "a duration without a unit": (changed("spec.targets.ttft.limit", 250), "spec.targets.ttft.limit: 250"),
    "no target": (changed("spec.targets", {}), "spec.targets: at least one target is needed"),
    "a negative price": (
        changed("spec.objective.prices.memory", -1),
        "spec.objective.prices.memory: -1: input should be greater than or equal to 0",
    ),
    "min above max": (changed("spec.knobs.cacheTTL.min", "10m"), "spec.knobs.cacheTTL"),
    "a ratio above 1": (
        changed("spec.knobs.evictionRatio", {"min": 0.1, "max": 3}),
        "spec.knobs.evictionRatio.max: 3: input should be less than or equal to 1",
    ),
    "no Kubernetes quantity": (
        changed("spec.knobs.tiers.hostMemory.min", "8GB"),
        "spec.knobs.tiers.hostMemory.min: '8GB'",
    ),
    "an unknown mode": (changed("spec.mode", "Automatic"), "spec.mode: 'Automatic'"),
    "a misspelt field": (changed("spec.experimnt", {}), "spec.experimnt"),
    "a lease that is too short": (
        changed("spec.experiment.leaseDuration", "1s"),
        "leaseDuration 1s is less than 3s",
    ),
}


@pytest.mark.parametrize(("document", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_policy_is_refused_with_line_field_value_and_limit(
    document: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = write_policy(tmp_path / "policy.yaml", document)

    done = kvtune("validate", "-f", path)

    assert done.returncode == 3
    head, *problems = done.stdout.splitlines()
    assert head == f"{path}: 1 problem"
    (problem,) = (line for line in problems if "warning" not in line)
    assert problem.startswith("  line ")
    assert words in problem
