"""Tasks beside the policies' own that must never end: begun again after a bug, and told of meanwhile."""

import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

BACKOFF_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Between an end and the next try."""


async def lasting(
    name: str,
    work: Callable[[], Awaitable[None]],
    *,
    sleep: Callable[[float], Awaitable[None]],
    down: set[str],
) -> None:
    """Do `work` for ever. While it is not done its name is in `down`, by which /healthz fails."""
    failures = 0
    while True:
        try:
            await work()
            log.error("a task ended by a bug, it is begun again", extra={"task": name})
        except Exception:  # whatever ends it, somebody has to do its work
            log.exception("a task failed by a bug, it is begun again", extra={"task": name})
        down.add(name)
        await sleep(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)])
        down.discard(name)
        failures += 1
