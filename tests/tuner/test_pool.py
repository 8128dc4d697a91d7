"""What is said of a pool that lacks agents, loses them, or shares them with another policy."""

from dataclasses import replace

import pytest

from kvtune_api.names import ConditionType, Phase, Reason
from kvtune_api.status import Truth
from kvtune_tuner.model import PoolSeen
from tests.fakes.leaving import going, not_ready, rolled
from tests.tuner.loop import Loop, loop
from tests.tuner.specs import gaining


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (Reason.NO_NODES, "no node has the labels pool=llm"),
        (Reason.NO_PODS, "no pod has the labels app=agent on the 3 nodes of the pool"),
        (Reason.NO_PORT, "3 pods, none with a container port named kvtune"),
        (Reason.PODS_NOT_READY, "0 of 3 pods are ready"),
        (Reason.FORBIDDEN, "may not list nodes"),
    ],
)
def test_case_04_why_there_is_no_agent_is_a_condition_and_what_the_policy_waits_for(
    reason: Reason, message: str
) -> None:
    run = loop(agents=0)
    run.pods = PoolSeen(reason=reason, message=message)
    run.step()
    ready = run.condition(ConditionType.AGENTS_READY)
    assert (ready.status, ready.reason, ready.message) == (Truth.FALSE, reason, message)
    assert run.status.waiting_for == message
    writes = run.writes
    run.steps(10)
    assert run.writes == writes


def test_without_a_reason_the_selector_selects_no_agent() -> None:
    run = loop(agents=0)
    run.step()
    assert run.condition(ConditionType.AGENTS_READY).reason is Reason.NO_AGENTS


def test_pods_that_are_not_ready_are_said_while_the_others_are_used() -> None:
    run = loop(gaining())
    unready = run.pool.names()[:2]
    run.pods = PoolSeen(
        leaving=dict.fromkeys(unready, not_ready()),
        reason=Reason.PODS_NOT_READY,
        message="4 of 6 pods are ready",
    )
    run.until_phase(Phase.RUN_IN)
    assert run.condition(ConditionType.AGENTS_READY).reason is Reason.PODS_NOT_READY
    assert len(run.experiment.spec.pairs) == 2
    assert not {n for p in run.experiment.spec.pairs for n in (p.first, p.second)} & set(unready)


def test_agents_that_are_about_to_leave_are_named_and_not_chosen() -> None:
    run = loop(gaining())
    leaver = run.pool.names()[0]
    run.pods = PoolSeen(leaving={leaver: going("drain of node-1")})
    run.until_phase(Phase.RUN_IN)
    assert leaver in run.condition(ConditionType.AGENTS_READY).message
    assert len(run.experiment.spec.pairs) == 2
    assert all(leaver not in (pair.first, pair.second) for pair in run.experiment.spec.pairs)


def test_with_one_agent_that_stays_nothing_starts() -> None:
    run = loop(gaining(), agents=2)
    run.pods = PoolSeen(leaving={run.pool.names()[0]: going()})
    run.steps(80)
    assert run.phase is Phase.IDLE and not run.experiments
    assert run.status.waiting_for == "1 of 2 agents answer and stay; an experiment needs 2"


def test_a_rollout_holds_new_experiments_until_it_is_over() -> None:
    run = loop(gaining())
    run.pods = PoolSeen(leaving={run.pool.names()[0]: rolled()})
    run.steps(80)
    assert not run.experiments and "rollout" in run.status.waiting_for
    assert run.condition(ConditionType.EXPERIMENTING).reason is Reason.MIXED_VERSIONS
    run.pods = PoolSeen()
    run.until_phase(Phase.RUN_IN)


def _contested(run: Loop) -> Loop:
    run.pods = PoolSeen(contested={f"agent-{index}": "older" for index in range(5)})
    return run


def test_agents_of_an_older_policy_are_a_condition_while_they_are_contested() -> None:
    run = _contested(loop(gaining()))
    run.step()
    found = run.condition(ConditionType.EXCLUSIVE)
    assert (found.status, found.reason) == (Truth.FALSE, Reason.OVERLAPPING)
    for part in ("5 selected agents", "older policy older", "agent-0, agent-1, agent-2 and 2 more"):
        assert part in found.message
    run.pods = PoolSeen()
    run.step()
    assert run.condition(ConditionType.EXCLUSIVE).status is Truth.TRUE
    assert run.condition(ConditionType.EXCLUSIVE).reason is Reason.SOLE


def test_a_policy_that_never_shared_an_agent_has_no_such_condition() -> None:
    run = loop(gaining())
    run.steps(5)
    assert all(each.type is not ConditionType.EXCLUSIVE for each in run.status.conditions)


def test_when_all_agents_are_contested_the_policy_waits_and_says_for_what() -> None:
    run = _contested(loop(agents=0))
    run.steps(2)
    assert "the older policy older" in run.status.waiting_for
    assert run.condition(ConditionType.AGENTS_READY).reason is Reason.OVERLAPPING
    assert run.condition(ConditionType.EXPERIMENTING).reason is Reason.OVERLAPPING


def test_two_older_policies_are_both_named() -> None:
    run = loop(gaining())
    run.pods = replace(run.pods, contested={"agent-1": "b", "agent-0": "a"})
    run.step()
    assert "policies a, b: agent-0, agent-1;" in run.condition(ConditionType.EXCLUSIVE).message
