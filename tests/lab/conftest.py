"""The published traces, where they lie beside this checkout."""

from pathlib import Path

import pytest

TRACES = Path(__file__).parents[3] / "shared/traces"


@pytest.fixture(scope="session")
def traces() -> Path:
    """Their folder; skips what needs it where it is absent."""
    if not TRACES.exists():
        pytest.skip("the published traces are not beside this checkout (../shared/traces)")
    return TRACES
