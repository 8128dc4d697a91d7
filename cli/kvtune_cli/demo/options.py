"""What a run of the demo is told, and the lengths that follow from it."""

from dataclasses import dataclass
from pathlib import Path

from kvtune_api.errors import Problem, SpecError

STRATEGIES = {
    "auto": "Auto",
    "reuse-model": "ReuseModel",
    "ladder": "Ladder",
    "optuna": "Optuna",
    "proportional": "Proportional",
}
"""Strategies by the name on the command line."""

TICK_SECONDS = 10.0
"""Scaled seconds between the control plane's steps."""

PREFILL_SECONDS = 1200.0
"""Scaled seconds of traffic fed before the start, as fast as the agents take them."""

WORKLOAD = "mixed"
"""The generated traffic: chat, and documents that are asked about once (kvtune_lab.workload)."""

WALL_SECONDS = 190.0
"""Wall seconds of experiments on generated traffic: the whole demo stays within four minutes."""

TRACE_WALL_SECONDS = 420.0
"""The same on a trace: within eight minutes."""

AGENTS_LIMIT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """One run of the demo. Raises `SpecError` with every problem at once."""

    directory: Path
    """Folder of this run: state, logs, agents' state, ledger."""

    policy: Path | None = None
    """Another policy than the demo's own."""

    trace: Path | None = None
    json_file: Path | None = None
    with_grid: bool = False
    last_act: bool = True
    seed: int = 1
    speed: float = 60.0
    agents: int = 6
    rate: float = 5.0
    """Generated requests per scaled second and agent."""

    strategy: str = "auto"
    live: bool = True
    """Draw a live view; else print a line at every change."""

    def __post_init__(self) -> None:
        problems = []
        if not 1 <= self.speed <= 600:
            problems.append(Problem("--speed", f"{self.speed:g} is not between 1 and 600"))
        if not 2 <= self.agents <= AGENTS_LIMIT:
            problems.append(Problem("--agents", f"{self.agents} is not between 2 and {AGENTS_LIMIT}"))
        if not 0.05 <= self.rate <= 50:
            problems.append(Problem("--rate", f"{self.rate:g} is not between 0.05 and 50"))
        if self.seed < 0:
            problems.append(Problem("--seed", f"{self.seed} is less than 0"))
        if self.strategy not in STRATEGIES:
            allowed = ", ".join(STRATEGIES)
            problems.append(Problem("--strategy", f"{self.strategy!r} is not one of {allowed}"))
        if self.trace is not None and not self.trace.is_file():
            problems.append(Problem("--trace", f"{self.trace} is not a file"))
        if problems:
            raise SpecError(*problems)

    @property
    def scaled_seconds(self) -> float:
        """Scaled seconds of the main act: those of a run at 60x, whatever the speed."""
        return (TRACE_WALL_SECONDS if self.trace else WALL_SECONDS) * 60.0
