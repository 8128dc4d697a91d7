"""One fleet for all tests of `kvtune up`; each test has a control plane with a state directory of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.fleet import Fleet, Plane

NewPlane = Callable[..., Plane]


@pytest.fixture(scope="package")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Agents under traffic."""
    made = Fleet(tmp_path_factory.mktemp("fleet"))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def new_plane(fleet: Fleet, tmp_path: Path) -> Iterator[NewPlane]:
    """Make control planes on the fleet; all of them end with the test."""
    made: list[Plane] = []

    def new(document: dict[str, Any] | None = None) -> Plane:
        plane = Plane(fleet, tmp_path / f"plane-{len(made) + 1}", document)
        made.append(plane)
        return plane

    try:
        yield new
    finally:
        for plane in reversed(made):
            plane.close()
