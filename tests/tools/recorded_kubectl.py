"""A kubectl that answers what a test has recorded, and keeps what it was asked."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Recorded:
    """A kubectl that answers from a table and keeps what it was asked."""

    answers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    objects: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, *arguments: str, timeout_seconds: float = 1.0) -> str:
        self.asked.append(arguments)
        return self.answers.get(" ".join(arguments[:2]), "")

    def items(self, kind: str, *arguments: str) -> list[dict[str, Any]]:
        return self.events if kind == "events" else self.objects
