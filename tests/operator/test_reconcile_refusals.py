"""An agent that refuses our token, although we are in charge, is its own trouble and nobody else's."""

from collections.abc import Mapping

import pytest

from kvtune_api.errors import Unavailable
from kvtune_api.names import ConditionType, Phase, Reason
from kvtune_api.status import Truth
from kvtune_api.wire import Push
from kvtune_operator.ports import Accepted, Refused, Unreachable
from kvtune_operator.reconcile import InCharge, RunEnd
from tests.operator.control import Control, FragileAgents, control

POISON = 2**53


async def in_charge() -> bool:
    return True


async def replaced() -> bool:
    return False


async def unknown() -> bool:
    raise Unavailable("no answer")


async def poisoned(answer: InCharge | None) -> tuple[Control, str]:
    """A control plane in mid-experiment, one of whose exposed agents holds a token that nobody has given."""
    plane = control()
    plane.in_charge = answer
    plane.restart()
    await plane.until_phase(Phase.MEASURING)
    name = sorted(plane.exposed())[0]
    plane.pool.agents[name].token = POISON
    return plane, name


async def test_a_leader_in_charge_goes_on_and_tells_who_refuses_it_once() -> None:
    plane, name = await poisoned(in_charge)
    for _ in range(6):
        assert await plane.tick() is None
    pushed = [agent for _, agent, _ in plane.pool.log]

    fenced = await plane.condition(ConditionType.FENCED)
    assert (fenced.status, fenced.reason) == (Truth.TRUE, Reason.FENCED)
    assert name in fenced.message
    assert len(plane.told_of(Reason.FENCED)) == 1

    for _ in range(6):
        assert await plane.tick() is None
    later = [agent for _, agent, _ in plane.pool.log][len(pushed) :]
    assert name not in later
    assert len(set(later)) > 1, "the others are pushed to as before"
    assert {push.token for _, _, push in plane.pool.log} == {plane.token}


async def test_an_agent_that_reports_a_lower_token_again_is_pushed_to_again() -> None:
    plane, name = await poisoned(in_charge)
    await plane.ticks(4)
    assert (await plane.condition(ConditionType.FENCED)).status is Truth.TRUE

    plane.pool.agents[name].token = 0
    await plane.ticks(2)

    assert (await plane.condition(ConditionType.FENCED)).status is Truth.FALSE
    assert plane.pool.agents[name].token == plane.token


class Liars(FragileAgents):
    """Agents one of which refuses every push as stale, whatever it reports."""

    liar = ""

    async def push(self, pushes: Mapping[str, Push]) -> Mapping[str, Accepted | Refused | Unreachable]:
        answers = await super().push(pushes)
        lie = Refused(status=409, reason="StaleToken", message="no")
        return {agent: lie if agent == self.liar else answer for agent, answer in answers.items()}


async def test_an_agent_that_lies_about_its_token_ends_nobody_and_is_told_of_once() -> None:
    plane = control()
    agents = Liars(plane.pool, plane.clock)
    plane.in_charge, plane.agents = in_charge, agents
    plane.restart()
    await plane.until_phase(Phase.MEASURING)
    agents.liar = sorted(plane.exposed())[0]

    assert [await plane.tick() for _ in range(8)] == [None] * 8
    assert len(plane.told_of(Reason.OUT_OF_SYNC)) == 1
    assert len(plane.exposed()) > 1


@pytest.mark.parametrize("answer", [replaced, None])
async def test_one_that_is_not_in_charge_any_more_stops(answer: InCharge | None) -> None:
    plane, _ = await poisoned(answer)
    ends = [await plane.tick() for _ in range(4)]

    assert RunEnd.FENCED in ends


async def test_while_it_is_not_known_who_is_in_charge_nothing_is_concluded() -> None:
    plane, _ = await poisoned(unknown)

    assert [await plane.tick() for _ in range(4)] == [None] * 4
    assert not plane.told_of(Reason.FENCED)
