"""Cut a workload into spans of virtual time, with the rows of each agent, and wait for a span's end.

Called by driver.py, for a fleet that stays as it is, and by live.py, for one that changes.
"""

import asyncio
from collections.abc import Iterable

from kvtune_lab.clock import ScaledClock
from kvtune_lab.posting import Row
from kvtune_lab.sticky import StickyAssignment
from kvtune_lab.traffic import Request

MOST_STEPS_AT_ONCE = 20


class Spans:
    """Take requests from a workload span by span, as rows per agent."""

    def __init__(self, requests: Iterable[Request], agents: int, start_unix_s: float) -> None:
        self._requests = iter(requests)
        self._sticky = StickyAssignment(agents)
        self._agents = agents
        self._start_unix_s = start_unix_s
        self._ahead: Request | None = None
        self.ended = False

    def rows_until(self, until_unix_s: float) -> list[list[Row]]:
        """Give each agent's rows that arrive up to a time, in order."""
        rows: list[list[Row]] = [[] for _ in range(self._agents)]
        while not self.ended:
            request = self._ahead or next(self._requests, None)
            if request is None:
                self.ended = True
                break
            arrival = round(self._start_unix_s + request.arrival_s, 6)
            if arrival > until_unix_s:
                self._ahead = request
                break
            self._ahead = None
            agent = self._sticky.agent_of(request.root, request.arrival_s)
            rows[agent].append(_row(arrival, request))
        return rows


def _row(arrival: float, request: Request) -> Row:
    prompt, output, hint = request.prompt_tokens, request.output_tokens, request.hint
    if hint is None:
        return arrival, request.root, prompt, output, request.blocks
    return arrival, request.root, prompt, output, request.blocks, hint.said()


def steps_due(until: float, clock: ScaledClock, step: float) -> int:
    """Say how many steps to take at once: one, or as many as have passed already."""
    return min(MOST_STEPS_AT_ONCE, max(1, int((clock.now_s() - until) / step)))


async def sleep_until(virtual_unix_s: float, clock: ScaledClock, stop: asyncio.Event) -> None:
    """Sleep until a virtual time, or until stopped; always gives others a turn."""
    seconds = clock.wall_seconds_until(virtual_unix_s)
    if seconds == 0:
        await asyncio.sleep(0)
        return
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
