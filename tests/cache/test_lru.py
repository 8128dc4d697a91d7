"""The device tier."""

import pytest

from kvtune_cache.lru import LruTable


def test_tails_leave_before_heads() -> None:
    table = LruTable(4)
    table.touch([1, 2, 3])
    table.touch([7, 8])
    assert list(table.entries) == [2, 1, 8, 7]


def test_a_touch_makes_a_block_the_newest() -> None:
    table = LruTable(3)
    table.touch([1])
    table.touch([2])
    table.touch([1])
    table.touch([3, 4])
    assert list(table.entries) == [1, 4, 3]


def test_a_request_longer_than_the_table_keeps_the_head_that_fits() -> None:
    table = LruTable(2)
    table.touch([9])
    table.touch([1, 2, 3, 4])
    assert list(table.entries) == [2, 1]


def test_a_table_of_no_blocks_holds_nothing() -> None:
    table = LruTable(0)
    table.touch([1, 2])
    assert len(table) == 0


def test_a_negative_capacity_is_refused_with_its_value() -> None:
    with pytest.raises(ValueError, match="capacity_blocks: -1 is less than 0"):
        LruTable(-1)
