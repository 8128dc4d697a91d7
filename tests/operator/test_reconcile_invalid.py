"""A policy whose stored spec cannot be accepted: told once, nothing pushed, a running experiment ended."""

from dataclasses import replace
from datetime import datetime

from kvtune_api.errors import Problem, SpecError
from kvtune_api.names import ConditionType, Phase, Reason
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import Truth
from kvtune_api.units import Duration
from kvtune_operator.ports import House, Invalid, Sources, Stored
from kvtune_operator.reconcile import RunEnd
from kvtune_tuner.model import Limits
from tests.operator.control import NAME, Control, FragileObjects, control
from tests.tuner.specs import QUICK, spec

RESTED = replace(QUICK, cooldown=Duration("10m"))
WRONG = SpecError(Problem("spec.knobs.cacheTTL.min", "'0s' must be greater than 0s"))
NO_ADDRESS = SpecError(Problem("spec.metrics.prometheus.address", "is needed with source Prometheus"))


class Spoilt(FragileObjects):
    """A store whose policy can become one that cannot be read."""

    wrong: SpecError | None = None

    async def policy(self, name: str) -> Stored | None:
        found = await super().policy(name)
        if found is None or self.wrong is None:
            return found
        return Invalid(metadata=found.metadata, status=found.status, error=self.wrong)


class Sourceless(House):
    """A house that does not know where figures come from while `wrong` is set."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.wrong: SpecError | None = None

    def limits(self, policy: KVCachePolicy, now: datetime) -> Limits:
        return Limits()

    def sources(self, policy: KVCachePolicy) -> Sources:
        if self.wrong is not None:
            raise self.wrong
        return self._sources


def spoilt() -> tuple[Control, Spoilt]:
    plane = control(spec=spec(settings=RESTED))
    objects = Spoilt()
    objects.apply(NAME, spec(settings=RESTED))
    plane.objects = objects
    plane.plane = plane.new_plane(plane.token)
    return plane, objects


async def told(plane: Control) -> tuple[Truth, Reason, str]:
    held = plane.objects._policies[NAME].status
    assert held is not None
    found = next(c for c in held.conditions if c.type is ConditionType.ACCEPTED)
    return found.status, found.reason, found.message


async def test_a_spec_that_cannot_be_read_is_told_once_with_its_path_and_pushed_nowhere() -> None:
    plane, objects = spoilt()
    objects.wrong = WRONG
    await plane.ticks(1)
    writes = objects.writes
    await plane.ticks(5)

    assert await told(plane) == (Truth.FALSE, Reason.INVALID, str(WRONG))
    assert objects.writes == writes
    assert len(plane.told_of(Reason.INVALID)) == 1
    assert not plane.pool.log


async def test_once_it_is_mended_it_is_accepted_without_a_restart() -> None:
    plane, objects = spoilt()
    objects.wrong = WRONG
    await plane.ticks(2)
    objects.wrong = None
    await plane.ticks(1)

    assert (await told(plane))[0] is Truth.TRUE


async def test_an_experiment_ends_when_its_policy_can_no_longer_be_read() -> None:
    plane, objects = spoilt()
    await plane.until_phase(Phase.MEASURING)
    assert plane.exposed()
    objects.wrong = WRONG
    await plane.ticks(8)

    assert await plane.outcome() == "Aborted(Superseded)"
    assert not plane.exposed()
    assert (await told(plane))[0] is Truth.FALSE
    assert objects._policies[NAME].metadata.finalizers is None


async def test_an_experiment_ends_when_its_sources_are_not_known_any_more() -> None:
    plane = control(spec=spec(settings=RESTED))
    house = Sourceless(Sources(metrics=plane.metrics))
    plane.plane._gatherer._house = house
    await plane.until_phase(Phase.MEASURING)
    house.wrong = NO_ADDRESS
    await plane.ticks(8)

    assert await plane.outcome() == "Aborted(Superseded)"
    assert "spec.metrics.prometheus.address" in (await plane.experiment()).status.message
    assert not plane.exposed()


async def test_without_sources_nothing_starts_and_the_field_is_named() -> None:
    plane = control(spec=spec(settings=RESTED))
    house = Sourceless(Sources(metrics=plane.metrics))
    house.wrong = NO_ADDRESS
    plane.plane._gatherer._house = house
    await plane.ticks(3)

    assert await told(plane) == (Truth.FALSE, Reason.INVALID, str(NO_ADDRESS))
    assert not plane.pool.log


async def test_a_policy_that_is_deleted_while_it_is_invalid_goes_at_once() -> None:
    plane, objects = spoilt()
    objects.wrong = WRONG
    await plane.ticks(1)
    held = objects._policies[NAME]
    objects._policies[NAME] = replace(
        held, metadata=replace(held.metadata, deletion_timestamp="2026-11-30T00:00:00Z")
    )

    assert await plane.plane.tick(NAME) is RunEnd.REMOVED
