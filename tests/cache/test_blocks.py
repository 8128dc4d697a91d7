"""The block table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_cache.blocks import (
    FREQUENT,
    GONE,
    NO_BLOCK,
    RECENT,
    leave,
    link,
    move,
    next_request,
    oldest_free,
    pin,
    plain_table,
    prefix,
    renew,
    resident,
    unlink,
)
from tests.cache.streams import assert_sound, members


def test_a_table_of_no_blocks_is_refused_with_its_size() -> None:
    with pytest.raises(ValueError, match="blocks: 0 is less than 1"):
        plain_table(0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 2)), max_size=60))
def test_law_lists_are_as_a_model_of_python_lists_has_them(deeds: list[tuple[int, int, int]]) -> None:
    table = plain_table(10)
    model: list[list[int]] = [[], [], [], []]
    for k, x, deed in deeds:
        holder = next((one for one in model if x in one), None)
        if holder is None:
            link(table, x, k)
            model[k].insert(0, x)
        elif deed == 0:
            unlink(table, x)
            holder.remove(x)
        elif k + 1 != table.where[x]:
            move(table, x, table.where[x] - 1, k)
            holder.remove(x)
            model[k].insert(0, x)
        else:
            renew(table, x, table.where[x] - 1)
            holder.remove(x)
            holder.insert(0, x)
        assert_sound(table)
        assert [members(table, k) for k in range(4)] == model


def test_a_block_that_leaves_is_noted_until_the_next_request() -> None:
    table = plain_table(3)
    link(table, 2, RECENT)
    link(table, 1, FREQUENT)
    leave(table, 2)
    assert table.gone[: table.state[GONE]] == [2]
    assert resident(table) == 1
    next_request(table)
    assert table.state[GONE] == 0


def test_the_oldest_that_is_not_pinned() -> None:
    table = plain_table(3)
    for x in (0, 1, 2):
        link(table, x, RECENT)
    next_request(table)
    pin(table, [0, 1, 2], 0, 2)
    assert oldest_free(table, RECENT) == 2
    pin(table, [0, 1, 2], 2, 3)
    assert oldest_free(table, RECENT) == NO_BLOCK
    next_request(table)
    assert oldest_free(table, RECENT) == 0, "pins last for one request"


def test_a_prefix_ends_at_the_first_block_that_is_not_there() -> None:
    table = plain_table(4)
    for x in (0, 1, 3):
        link(table, x, RECENT)
    assert prefix(table, [0, 1, 2, 3], 0, 4) == 2
    assert prefix(table, [2, 3], 0, 2) == 0
    assert prefix(table, [0, 1], 0, 2) == 2
