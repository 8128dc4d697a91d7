"""A user lets agents that fell back to LRU run their eviction policy again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvtune_api.names import ConditionType, Reason
from kvtune_api.status import Truth
from kvtune_api.wire import Fallback
from kvtune_operator.ports import Accepted, Refused, Unreachable
from kvtune_tuner.model import Verb
from tests.fakes.pool import FakeAgents
from tests.fakes.responses import flat
from tests.operator.control import NAME, POOL, control
from tests.tuner.specs import spec

LOW = Fallback(reason="LowReuse", message="reuse rate 0.310 under 0.4 for 300 s", since=100.0)


async def test_agents_are_asked_and_what_came_of_it_is_an_event() -> None:
    plane = control(flat(), spec=replace(spec(), paused=True), settings=POOL)
    first, second, *_ = plane.pool.names()
    for name in (first, second):
        plane.pool.agents[name].fallback = LOW
    await plane.tick()
    assert (await plane.condition(ConditionType.EVICTION_AS_ASKED)).status is Truth.FALSE

    plane.objects.command(Verb.RESTORE)
    await plane.ticks(2)

    told = [event.message for event in plane.told_of(Reason.EVICTION_RESTORED)]
    assert told == [
        f"{name}: the eviction policy asked for runs again, as was asked" for name in (first, second)
    ]
    assert (await plane.condition(ConditionType.EVICTION_AS_ASKED)).status is Truth.TRUE
    assert not await plane.objects.commands(NAME)


class Deaf(FakeAgents):
    """Agents that report, and cannot be written to."""

    async def restore(self, agents: Sequence[str]) -> Mapping[str, Accepted | Refused | Unreachable]:
        return {name: Unreachable(message=f"POST {name}: no whole answer within 2 s") for name in agents}


async def test_an_agent_that_cannot_be_asked_is_told_of_and_the_wish_is_over() -> None:
    plane = control(flat(), spec=replace(spec(), paused=True), settings=POOL)
    plane.agents = Deaf(plane.pool, plane.clock)
    plane.restart()
    first = plane.pool.names()[0]
    plane.pool.agents[first].fallback = LOW
    plane.objects.command(Verb.RESTORE, first)
    await plane.ticks(2)

    told = [event.message for event in plane.told_of(Reason.NOT_AVAILABLE)]
    assert told == [f"restore {first}: POST {first}: no whole answer within 2 s"]
    assert not await plane.objects.commands(NAME)
