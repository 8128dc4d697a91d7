"""What an operator's health endpoint says: a standby is well while it answers, a leader while tasks step."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kvtune_operator.observed import Pulse
from kvtune_operator.telemetry import Telemetry

NAMED = 20
"""At most so many stuck policies are named."""


class Stage(StrEnum):
    """How far the operator has come."""

    CONNECTING = "Connecting"
    STANDBY = "Standby"
    STARTING = "Starting"
    LEADING = "Leading"
    STOPPING = "Stopping"


@dataclass(slots=True, kw_only=True)
class ClusterVitals:
    """The vitals of an operator of many policies. Implements `health.Vital`."""

    pulse: Pulse
    telemetry: Telemetry
    monotonic: Callable[[], float]
    stuck_after_seconds: float
    stage: Stage = Stage.CONNECTING
    waits_for: str = ""
    """What keeps it from going on, in words."""

    tasks: Callable[[], tuple[str, ...]] = field(default=tuple[str, ...])
    """Policies that have a task now."""

    down: set[str] = field(default_factory=set)
    """Tasks beside the policies' own that a bug has ended and that are not begun again yet."""

    @property
    def stuck(self) -> tuple[str, ...]:
        """Policies whose task has not stepped for too long."""
        now, steps = self.monotonic(), self.pulse.steps
        limit = self.stuck_after_seconds
        return tuple(name for name in self.tasks() if now - steps.get(name, now) > limit)

    @property
    def alive(self) -> bool:
        """Whether every task steps, and those beside them run."""
        return not self.stuck and not self.down

    @property
    def ready(self) -> bool:
        """Whether it works, or stands by."""
        return self.alive and self.stage in (Stage.STANDBY, Stage.LEADING)

    def details(self) -> dict[str, Any]:
        """The stage, and who is stuck."""
        found: dict[str, Any] = {"stage": self.stage.value, "policies": len(self.tasks())}
        if self.waits_for:
            found["waitsFor"] = self.waits_for
        if stuck := self.stuck:
            found["stuck"] = list(stuck[:NAMED])
            found["stuckAfterSeconds"] = self.stuck_after_seconds
        if self.down:
            found["down"] = sorted(self.down)
        return found
