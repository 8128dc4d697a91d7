"""A step of a policy with many agents costs steps in proportion to the agents: counted, not timed."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import FrameType

import pytest

from kvtune_api.names import Phase
from kvtune_api.policy import Mode
from kvtune_api.units import Duration
from kvtune_tuner.model import PoolSeen, Seen
from kvtune_tuner.plan import plan
from tests.fakes.leaving import going
from tests.tuner.loop import Loop, loop
from tests.tuner.specs import QUICK, gaining, spec

FEW, MANY = 40, 160
PHASES = [Phase.IDLE, Phase.MEASURING, Phase.PROMOTING, Phase.WATCHING]
ROOM = 1.35
"""Four times the agents may cost so much more than four times the calls (sorting)."""


@cache
def _run(agents: int, phase: Phase) -> Loop:
    run = loop(gaining(), agents=agents, spec=spec(Mode.AUTO, replace(QUICK, cooldown=Duration("10m"))))
    if phase is not Phase.IDLE:
        run.until_phase(phase)
        run.step()
    return run


def calls(seen: Seen) -> int:
    """How many functions of Python one plan calls."""
    counted = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal counted
        counted += event == "call"

    before: Callable[..., object] | None = sys.getprofile()
    sys.setprofile(count)
    try:
        plan(seen)
    finally:
        sys.setprofile(before)
    return counted


@pytest.mark.parametrize("phase", PHASES)
def test_four_times_the_agents_cost_four_times_the_steps(phase: Phase) -> None:
    few, many = (calls(_run(agents, phase).seen()) for agents in (FEW, MANY))
    assert many <= ROOM * few * MANY / FEW, f"{few} calls for {FEW} agents, {many} for {MANY}"


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.MEASURING])
def test_agents_that_leave_or_are_contested_cost_no_more(phase: Phase) -> None:
    def counted(agents: int) -> int:
        seen = _run(agents, phase).seen()
        leaving = dict.fromkeys((agent.name for agent in seen.agents[::2]), going())
        contested = {f"other-{index}": "older" for index in range(agents)}
        return calls(replace(seen, pool=PoolSeen(leaving=leaving, contested=contested)))

    few, many = counted(FEW), counted(MANY)
    assert many <= ROOM * few * MANY / FEW, f"{few} calls for {FEW} agents, {many} for {MANY}"
