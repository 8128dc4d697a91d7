"""Run the operator until a signal: SIGTERM and SIGINT stop it in good order, a second one at once.

Shared by `python -m kvtune_operator` and `kvtune operator`.
"""

import asyncio
import logging
import os
import resource
import signal

from kvtune_operator.cluster import run_cluster
from kvtune_operator.cluster_settings import ClusterSettings

log = logging.getLogger(__name__)

INTERRUPTED = 130
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
MOST_FILES = 65_536
"""Connections to agents are kept, one each; many systems allow a process 1,024 files unless it asks."""


def serve(settings: ClusterSettings) -> int:
    """Run an operator; return its exit code. Raises as `run_cluster` does."""
    allow_many_files()
    return asyncio.run(_served(settings))


def allow_many_files() -> int:
    """Raise this process's limit on open files as far as it may be, and is useful; the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        log.warning("open files stay limited", extra={"limit": soft, "error": str(error)})
        return soft
    return wanted


async def _served(settings: ClusterSettings) -> int:
    stop = asyncio.Event()
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def caught(number: signal.Signals) -> None:
        if stop.is_set():
            log.warning("second signal: stopping at once", extra={"signal": number.name})
            task.cancel()
            return
        log.info("stopping", extra={"signal": number.name})
        stop.set()

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, caught, number)
    try:
        return await run_cluster(settings, stop)
    except asyncio.CancelledError:
        log.warning("stopped at once: what runs is left as it is", extra={"pid": os.getpid()})
        return INTERRUPTED
