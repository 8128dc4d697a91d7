"""Sessions stay with their agent."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_lab.sticky import FORGET_AFTER_SECONDS, StickyAssignment


@given(st.integers(1, 7), st.lists(st.integers(0, 30), max_size=100))
def test_a_root_keeps_its_agent_and_agents_get_equally_many(agents: int, roots: list[int]) -> None:
    sticky, first = StickyAssignment(agents), dict[int, int]()
    for second, root in enumerate(roots):
        agent = sticky.agent_of(root, float(second))
        assert first.setdefault(root, agent) == agent
    shares = Counter(first.values())
    assert max(shares.values(), default=0) - min((shares[a] for a in range(agents)), default=0) <= 1


def test_a_root_that_keeps_coming_is_never_moved_and_memory_stays_bounded() -> None:
    sticky = StickyAssignment(3)
    home = sticky.agent_of(7, 0.0)
    for step in range(1, 2_000):
        now = step * FORGET_AFTER_SECONDS / 10
        assert sticky.agent_of(7, now) == home
        sticky.agent_of(1000 + step, now)
        assert sticky.remembered <= 24


def test_no_agent_is_refused() -> None:
    with pytest.raises(ValueError, match="agents: 0 is less than 1"):
        StickyAssignment(0)
