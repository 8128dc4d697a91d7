"""An agent whose policy gave way to LRU is told of once, and decides nothing."""

from dataclasses import replace

from kvtune_api.eviction_fallback import EvictionFallback
from kvtune_api.knobs import Knob
from kvtune_api.names import ConditionType, Phase, Reason
from kvtune_api.policy import PolicySpec
from kvtune_api.status import Truth
from kvtune_api.units import Duration
from kvtune_api.wire import Fallback, FallbackRules, Role
from kvtune_tuner.model import Verb
from tests.fakes.responses import flat
from tests.tuner.loop import loop
from tests.tuner.specs import gaining, spec

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


RULES = EvictionFallback(least_reuse_rate=0.3, over=Duration("10m"), return_after=Duration("1h"))


def asking(rules: EvictionFallback | None) -> PolicySpec:
    return replace(spec(), paused=True, eviction_fallback=rules)


def test_every_agent_is_told_the_rules_of_the_policy_once() -> None:
    run = loop(flat(), spec=asking(RULES))
    lacking = run.pool.agents[run.pool.names()[0]]
    lacking.unsupported = frozenset({Knob.EVICTION_POLICY})

    run.steps(10)

    told = [push.fallback_rules for _, _, push in run.pool.log]
    rules = FallbackRules(least_reuse_rate=0.3, over_seconds=600.0, return_after_seconds=3600.0)
    assert told == [rules] * (len(run.pool.agents) - 1), "but who has no eviction policy"
    run.edit(asking(None))
    run.steps(5)
    assert [push.fallback_rules for _, _, push in run.pool.log[len(told) :]] == [None] * len(told)


def test_candidates_are_told_the_rules_too() -> None:
    run = loop(gaining(), spec=replace(spec(), eviction_fallback=RULES))
    run.until_phase(Phase.MEASURING)

    candidates = [push for _, _, push in run.pool.log if push.role is Role.CANDIDATE]
    assert candidates and all(push.fallback_rules is not None for push in candidates)


def test_a_wish_restores_the_agents_that_fell_back_or_the_one_that_it_names() -> None:
    run = loop(flat(), spec=asking(None))
    run.step()
    first, second, *_ = run.pool.names()
    for name in (first, second):
        run.pool.agents[name].fallback = LOW

    run.wish(Verb.RESTORE)
    assert run.step().restores == (first, second)
    run.wish(Verb.RESTORE, second)
    assert run.step().restores == (second,)
    assert run.step().restores == (), "once"


def test_a_wish_to_restore_who_did_not_fall_back_is_answered() -> None:
    run = loop(flat(), spec=asking(None))
    run.wish(Verb.RESTORE)
    run.step()
    run.wish(Verb.RESTORE, "a9")
    run.step()

    assert run.told(Reason.NOT_AVAILABLE) == [
        "restore: no agent runs LRU in place of its policy",
        "restore: a9 does not run LRU in place of its policy",
    ]
