"""How far the agents are behind the scaled clock, and what to do about it.

A machine that is too slow for the demo's speed closes counters late: windows are dropped and experiments end
as NoData. Called by the watcher at every look, and by the summary; it reads no clock.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kvtune_api.wire import Report
from kvtune_operator.ports import Unreachable

SHOWN_SECONDS = 120.0
"""Scaled seconds behind that are worth a line: one window of the demo's experiments lasts about that."""

HINT_SECONDS = 300.0
"""Scaled seconds behind, at worst, that are worth a hint after the run: five scaled minutes without data."""

LOOKS = 4
"""Looks in a row that must find the agents behind: one late answer is no slow machine."""


def lag(reports: Iterable[Report | Unreachable], scaled_now: float) -> float | None:
    """Scaled seconds from the slowest answering agent's newest counters to now; None without counters."""
    times = [r.counters.at for r in reports if isinstance(r, Report) and r.counters is not None]
    return max(scaled_now - min(times), 0.0) if times else None


@dataclass(slots=True)
class LagGauge:
    """Remembers the largest lag, and whether the agents have been behind for several looks."""

    largest: float | None = None
    """Scaled seconds; None as long as no agent had counters."""

    _looks_behind: int = 0

    def look(self, seconds: float | None) -> float | None:
        """Note one lag; return it when it has lasted, else None."""
        if seconds is None:
            return None
        self.largest = seconds if self.largest is None else max(self.largest, seconds)
        self._looks_behind = self._looks_behind + 1 if seconds > SHOWN_SECONDS else 0
        return seconds if self._looks_behind >= LOOKS else None


def behind(seconds: float, speed: float) -> str:
    """The sentence for agents that are behind now."""
    return (
        f"agents are {seconds:,.0f} scaled seconds behind: this machine is too slow for {speed:g}x; "
        f"{remedy(speed)}"
    )


def was_behind(seconds: float, speed: float) -> str:
    """The hint after a run whose agents were behind."""
    return (
        f"agents were up to {seconds:,.0f} scaled seconds behind: this machine is too slow for {speed:g}x; "
        f"{remedy(speed)}"
    )


def remedy(speed: float) -> str:
    """The command that asks less of the machine."""
    slower = int(speed / 3)
    other = f"--speed {slower}" if slower >= 1 else "--agents 2"
    return f"try make demo ARGS='{other}'"
