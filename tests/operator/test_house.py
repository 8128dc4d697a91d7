"""What the control plane allows a policy: kill switch, freezes, caps, and who was there first."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest

from kvtune_api.errors import Conflict
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.metadata import Metadata
from kvtune_api.names import Phase, Reason
from kvtune_api.operator_config import Day, FreezeWindow, OperatorConfig
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import PolicyStatus
from kvtune_operator.admitted import AdmittedObjects
from kvtune_operator.house import ClusterHouse, key_of
from kvtune_operator.ports import Sources
from tests.fakes.clock import FakeClock
from tests.fakes.objects import FakeObjects
from tests.fakes.pool import FakeMetrics, Pool
from tests.fakes.samples import cache_config, experiment, policy
from tests.fakes.sim import PoolSettings

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


@dataclass
class Rules:
    """Settings that a test changes."""

    config: OperatorConfig = field(default_factory=OperatorConfig)
    trouble: str = ""


def named(name: str, *, born: str = "2026-01-01T00:00:00Z", namespace: str = "chat") -> KVCachePolicy:
    metadata = Metadata(name=name, namespace=namespace, uid=f"uid-{name}", creation_timestamp=born)
    return replace(policy(), metadata=metadata, status=None)


def live(found: KVCachePolicy, phase: Phase = Phase.MEASURING) -> KVCachePolicy:
    status = PolicyStatus(phase=phase, experiment=f"{found.metadata.name}-00001")
    return replace(found, status=status)


def house(rules: Rules) -> ClusterHouse:
    pool = Pool(PoolSettings(agents=2, seed=1), config=cache_config())
    sources = Sources(metrics=FakeMetrics(pool, FakeClock()))
    return ClusterHouse(rules, lambda policy, config: sources, where="ConfigMap kvtune-operator")


def test_without_settings_everything_is_allowed() -> None:
    limits = house(Rules()).limits(named("a"), NOW)

    assert (limits.no_start, limits.no_experiment, limits.exposed_share) == (None, None, 0.5)


def test_the_kill_switch_ends_everything() -> None:
    limits = house(Rules(OperatorConfig(stop=True))).limits(named("a"), NOW)

    assert limits.no_experiment is not None and limits.no_start == limits.no_experiment
    assert limits.no_start.reason is Reason.STOPPED
    assert "ConfigMap kvtune-operator: stop" in limits.no_start.message


def test_a_freeze_names_its_window_and_its_end() -> None:
    config = OperatorConfig(freeze_windows=(FreezeWindow(name="weekend", days=(Day.SAT, Day.SUN)),))
    limits = house(Rules(config)).limits(named("a"), NOW)

    assert limits.no_start is not None and limits.no_experiment is not None
    assert limits.no_start.reason is Reason.FROZEN
    assert limits.no_start.message == "freeze window 'weekend' until 2026-11-30 00:00 UTC"


def test_settings_that_were_never_valid_let_nothing_start_but_end_nothing() -> None:
    limits = house(Rules(trouble="ConfigMap kvtune-operator is invalid: stop: 7")).limits(named("a"), NOW)

    assert limits.no_start is not None and limits.no_start.reason is Reason.INVALID
    assert limits.no_experiment is None


def test_a_cap_that_is_reached_keeps_others_from_starting_but_not_whoever_runs() -> None:
    found = house(Rules(OperatorConfig(max_experiments=1)))
    found.saw(live(named("a")))
    found.saw(named("b"))

    assert found.limits(named("a"), NOW).no_start is None
    held = found.limits(named("b"), NOW).no_start
    assert held is not None and held.reason is Reason.CAPPED
    assert held.message.startswith("1 experiments run, at most 1 may at once")


def test_two_that_start_in_one_tick_cannot_exceed_the_cap() -> None:
    found = house(Rules(OperatorConfig(max_experiments=1)))
    first, second = named("a"), named("b")
    assert found.limits(first, NOW).no_start is None
    assert found.limits(second, NOW).no_start is None

    found.admit(key_of(first))
    with pytest.raises(Conflict, match="at most 1"):
        found.admit(key_of(second))

    assert found.limits(second, NOW).no_start is not None
    assert found.live == 1


def test_a_place_is_free_again_when_the_experiment_has_ended_or_its_policy_is_gone() -> None:
    found = house(Rules(OperatorConfig(max_experiments=1)))
    found.admit(key_of(named("a")))
    found.saw(named("a"))
    assert found.limits(named("b"), NOW).no_start is None

    found.saw(live(named("a")))
    found.gone(key_of(named("a")))
    assert found.limits(named("b"), NOW).no_start is None


def test_a_winner_that_waits_for_approval_takes_no_place() -> None:
    found = house(Rules(OperatorConfig(max_experiments=1)))
    found.saw(live(named("a"), Phase.AWAITING_APPROVAL))

    assert found.limits(named("b"), NOW).no_start is None


def test_a_cap_of_zero_lets_nothing_start() -> None:
    assert house(Rules(OperatorConfig(max_experiments=0))).limits(named("a"), NOW).no_start is not None


def test_policies_of_one_name_in_two_namespaces_are_two() -> None:
    found = house(Rules(OperatorConfig(max_experiments=1)))
    found.saw(live(named("a", namespace="one")))

    assert found.limits(named("a", namespace="two"), NOW).no_start is not None


def test_rivals_are_the_older_policies_of_the_namespace_by_birth_and_then_by_uid() -> None:
    found = house(Rules())
    for other in (
        named("old", born="2025-01-01T00:00:00Z"),
        named("a-twin"),
        named("z-twin"),
        named("young", born="2027-01-01T00:00:00Z"),
        named("elsewhere", born="2025-01-01T00:00:00Z", namespace="other"),
    ):
        found.saw(other)

    assert [other.metadata.name for other in found.older(named("m"))] == ["old", "a-twin"]


async def test_an_experiment_begins_only_where_there_is_a_place() -> None:
    found = house(Rules(OperatorConfig(max_experiments=1)))
    stored = FakeObjects()
    objects = AdmittedObjects(stored, found, "chat")
    found.admit(("chat", "another"))
    mine = begun()

    with pytest.raises(Conflict, match="at most 1"):
        await objects.put_experiment(mine)
    assert stored.writes == 0

    found.gone(("chat", "another"))
    running = await objects.put_experiment(mine)
    found.admit(("chat", mine.spec.policy))
    await objects.put_experiment(running)
    assert found.live == 1


def begun() -> KVCacheExperiment:
    """An experiment that is about to begin."""
    made = experiment()
    metadata = replace(made.metadata, resource_version=None)
    return replace(made, metadata=metadata, status=replace(made.status, outcome=None, reason=None))


async def test_a_policy_that_is_gone_frees_its_place() -> None:
    found = house(Rules())
    found.admit(("chat", "a"))

    assert await AdmittedObjects(FakeObjects(), found, "chat").policy("a") is None
    assert found.live == 0
