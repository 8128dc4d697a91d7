"""The dead-man's switch: an agent's heartbeat, which ends candidates whose lease has run out.

Started by app.py beside the server. It needs nothing from outside the process: no network, no disk.
"""

import logging
from typing import Protocol

from kvtune_agent.clock import Clock

log = logging.getLogger(__name__)

BEAT_SECONDS = 0.1
"""Wall seconds between two looks at the lease: well below the shortest lease of a control plane (3 s)."""


class Beating(Protocol):
    """What has a heartbeat."""

    def beat(self) -> None:
        """Do what is due now."""
        ...


async def keep_beating(heart: Beating, clock: Clock) -> None:
    """Beat until cancelled. A beat that fails is logged and does not stop the next one."""
    while True:
        try:
            heart.beat()
        except Exception:  # a bug in an engine must not switch the dead-man's switch off
            log.exception("heartbeat failed")
        await clock.sleep(BEAT_SECONDS)
