"""The real API server for the tests of this folder (fixtures.py)."""

from pathlib import Path

import pytest

from tests.cluster.fixtures import binaries, control_plane, kube, kubectl, namespace

__all__ = ["binaries", "control_plane", "kube", "kubectl", "namespace"]

PATIENCE_SECONDS = 900
"""Experiments on the real clock take minutes, and longer on a busy machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder more time, where they ask for none themselves."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENCE_SECONDS))
