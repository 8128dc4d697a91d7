"""Assign sessions to agents for good, by session root, in turn at first sight.

Called by the driver and the grid, which thereby see the same traffic per agent. Deterministic in the order
of requests.
"""

FORGET_AFTER_SECONDS = 7200.0


class StickyAssignment:
    """Map session roots to agents 0 .. n-1; a root unseen for two hours may be placed anew.

    In turn, not by hash: every agent gets the same number of sessions, so that pairs match.
    """

    def __init__(self, agents: int) -> None:
        """Start with nothing placed; raises ValueError for less than one agent."""
        if agents < 1:
            raise ValueError(f"agents: {agents} is less than 1")
        self._agents = agents
        self._next = 0
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}
        self._turned_s = 0.0

    def agent_of(self, root: int, now_s: float) -> int:
        """Return the agent of a session root seen at `now_s`, seconds that never go back."""
        if now_s - self._turned_s >= FORGET_AFTER_SECONDS:
            self._older, self._recent, self._turned_s = self._recent, {}, now_s
        agent = self._recent.get(root)
        if agent is None:
            agent = self._older.get(root)
            if agent is None:
                agent = self._next
                self._next = (self._next + 1) % self._agents
            self._recent[root] = agent
        return agent

    @property
    def remembered(self) -> int:
        """Bound on the roots in memory."""
        return len(self._recent) + len(self._older)
