"""An agent whose policy gave way to LRU is told of once, and decides nothing."""

from kvtune_api.names import ConditionType, Reason
from kvtune_api.status import Truth
from kvtune_api.wire import Fallback
from tests.tuner.loop import loop
from tests.tuner.specs import gaining

LOW = Fallback(reason="LowReuse", message="reuse rate 0.310 under 0.4 for 300 s", since=100.0)


def test_a_fallback_is_a_condition_and_one_warning_until_it_is_over() -> None:
    run = loop(gaining())
    run.step()
    assert all(c.type is not ConditionType.EVICTION_AS_ASKED for c in run.status.conditions)
    agents = list(run.pool.agents.values())

    agents[0].fallback = LOW
    run.steps(3)

    found = run.condition(ConditionType.EVICTION_AS_ASKED)
    assert (found.status, found.reason) == (Truth.FALSE, Reason.EVICTION_FALLBACK)
    assert "LRU in place of" in found.message and "reuse rate 0.310 under 0.4" in found.message
    assert len(run.told(Reason.EVICTION_FALLBACK)) == 1
    agents[0].fallback = None
    run.step()
    assert run.condition(ConditionType.EVICTION_AS_ASKED).status is Truth.TRUE


def test_an_experiment_with_an_agent_that_fell_back_goes_on_to_its_verdict() -> None:
    run = loop(gaining())
    for agent in run.pool.agents.values():
        agent.fallback = LOW

    run.until_ended()

    assert run.outcome() == "Promoted(Superior)"
