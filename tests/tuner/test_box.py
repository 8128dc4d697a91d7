"""Sizes of memory that are proposed are whole GiB where the box allows it, as people write them."""

import pytest

from kvtune_api.knobs import Knob
from kvtune_tuner.box import Side

GIB, MIB = 2.0**30, 2.0**20


def side(*, low: float, high: float, current: float = 57.0) -> Side:
    """The size of the host tier from `low` to `high` GiB."""
    return Side(knob=Knob.HOST_MEMORY, current=current * GIB, low=low * GIB, high=high * GIB)


@pytest.mark.parametrize(
    ("low", "high", "gib", "found"),
    [
        (14.25, 228.0, 165090 / 1024, 161.0),
        (14.25, 228.0, 400.0, 228.0),
        (14.25, 227.5, 400.0, 227.5),
        (14.25, 228.0, 10.0, 14.25),
        (14.25, 228.0, 57.0, 57.0),
        (14.25, 228.0, 57.3, 57 + 307 / 1024),
        (56.6, 57.4, 56.7, 56 + 717 / 1024),
    ],
)
def test_a_size_is_rounded_to_a_whole_gib_inside_and_never_to_the_incumbent_s(
    low: float, high: float, gib: float, found: float
) -> None:
    assert side(low=low, high=high).nearest(gib * GIB) == pytest.approx(found * GIB, abs=MIB / 2)


def test_levels_are_whole_gib_but_for_the_ends_of_the_box() -> None:
    levels = [level / GIB for level in side(low=14.25, high=228.0).levels(9)]

    assert len(levels) == 9
    assert [level for level in levels if level != round(level)] == [14.25]
