"""Let Ctrl-C, SIGTERM and a closed terminal stop an asynchronous command in good order.

A second signal stops it at once.
"""

import asyncio
import signal
from collections.abc import Callable

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """Sets `stop` at the first signal and cancels the current task at the second."""

    def __init__(self, stop: asyncio.Event, tell: Callable[[str], None], *, text: str) -> None:
        self.first: signal.Signals | None = None
        """The signal that came first, if any."""

        self._stop = stop
        self._tell = tell
        self._text = text

    def install(self) -> None:
        """Catch the signals in the running loop, on behalf of the current task."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._caught, number, task)

    def _caught(self, number: signal.Signals, task: "asyncio.Task[object]") -> None:
        if self.first is not None:
            self._tell("second signal: stopping at once")
            task.cancel()
            return
        self.first = number
        self._tell(self._text)
        self._stop.set()
