"""Options, pictures and outcomes of demo runs that never took place."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from kvtune_api.names import ConditionType, Outcome, OutcomeReason, Reason
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import Condition, PolicyStatus, Truth
from kvtune_api.wire import Counters, Load, Report, Role, Running
from kvtune_cli.demo.last_act import LastAct
from kvtune_cli.demo.options import DemoOptions
from kvtune_cli.demo.story import Told
from kvtune_cli.demo.summary import print_summary
from kvtune_cli.demo.watching import Figures, Picture
from tests.fakes.samples import cache_config, experiment, policy


def options(**changes: Any) -> DemoOptions:
    """Options of a run; those not named are the demo's own."""
    return DemoOptions(directory=Path("run"), **changes)


def picture(stored: KVCachePolicy | None, *, elapsed: float = 0.0, running: bool = False) -> Picture:
    """What is seen of a run at one moment."""
    return Picture(
        elapsed=elapsed,
        policy=stored,
        experiment=experiment() if running else None,
        ended=(),
        agents={},
        candidate=Figures(),
        incumbent=Figures(),
        events=(),
    )


def resting(reason: Reason, truth: Truth = Truth.FALSE) -> KVCachePolicy:
    """A policy that runs no experiment, for a reason."""
    condition = Condition(
        type=ConditionType.EXPERIMENTING,
        status=truth,
        reason=reason,
        message="because",
        last_transition_time=datetime(2030, 1, 1, tzinfo=UTC),
    )
    return replace(policy(), status=PolicyStatus(conditions=(condition,)))


def told(**changes: Any) -> Told:
    """A run that has ended, as it is told of."""
    values: dict[str, Any] = {
        "options": options(),
        "policy": policy(),
        "start": cache_config(),
        "before": Figures(objective=0.3),
        "after": Figures(),
        "experiments": (),
        "resting": "nothing to try",
        "last_act": None,
        "restored": True,
        "scaled_seconds": 10.0,
    }
    return Told(**(values | changes))


def printed(of: Told) -> str:
    """The summary as text."""
    console = Console(width=160, record=True, quiet=False, file=None)
    with console.capture() as capture:
        print_summary(console, of, [], None, Path("state"))
    return capture.get()


def last_act(candidates: int, home: float | None) -> LastAct:
    """A last act whose control plane was killed."""
    return LastAct(
        bad_candidate=cache_config(),
        outcome="RolledBack(Breaker)",
        breaker_scaled_seconds=70.0,
        killed_with_candidates=candidates,
        home_after_wall_seconds=home,
    )


def report(at: float | None, role: Role = Role.INCUMBENT, lease: float | None = None) -> Report:
    """What an agent whose counters are of a time reports."""
    running = Running(
        role=role, config=cache_config(), incumbent=cache_config(), lease_remaining_seconds=lease
    )
    return Report(
        agent="agent",
        version="1",
        engine="replay",
        clock=1000.0,
        started_at=0.0,
        running=running,
        supports=(),
        load=Load(span_seconds=600.0),
        counters=None if at is None else Counters(at=at, started_at=0.0),
    )


def ended(reason: OutcomeReason) -> Any:
    """An experiment without a winner."""
    one = experiment()
    return replace(one, status=replace(one.status, outcome=Outcome.INCONCLUSIVE, reason=reason))
