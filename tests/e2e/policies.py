"""Small policies: short lifetimes and windows, so that an experiment takes seconds of wall time."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

QUICK: dict[str, Any] = {
    "apiVersion": "kvtune.dev/v1alpha1",
    "kind": "KVCachePolicy",
    "metadata": {"name": "quick"},
    "spec": {
        "targets": {"ttft": {"quantile": 0.9, "limit": "250ms"}},
        "objective": {"prices": {"memory": 0.05, "evictionPass": 1}},
        "knobs": {
            "cacheTTL": {"min": "20s", "max": "40s", "start": "20s", "largestStep": 2},
            "tiers": {"hostMemory": {"min": "14Gi", "max": "57Gi", "start": "14Gi", "largestStep": 2}},
        },
        "strategy": "ReuseModel",
        "experiment": {
            "alpha": 0.2,
            "window": {"min": "30s", "max": "60s"},
            "washout": {"min": "20s", "max": "40s"},
            "minRequests": 100,
            "minPairs": 5,
            "maxPairs": 12,
            "cooldown": "0s",
            "watchWindows": 1,
            "leaseDuration": "3s",
        },
    },
}


def quick(*, experiment: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """The quick policy with parts of its spec and of its experiment's settings replaced."""
    document = deepcopy(QUICK)
    document["spec"] |= spec
    document["spec"]["experiment"] |= experiment or {}
    return document


def write_policy(path: Path, document: dict[str, Any]) -> Path:
    """Write a policy as editors do: at once."""
    beside = path.with_suffix(".new")
    beside.write_text(yaml.safe_dump(document, sort_keys=False))
    beside.replace(path)
    return path
