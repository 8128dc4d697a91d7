"""The replica that works, over parts that a test steers: how it begins, and how it is ended meanwhile."""

import asyncio
from typing import cast

import pytest

from kvtune_operator.adapters.lease import LeaseLost
from kvtune_operator.clock import WallClock
from kvtune_operator.cluster_parts import Listed, Parts
from kvtune_operator.cluster_settings import ClusterSettings
from kvtune_operator.cluster_telemetry import ClusterTelemetry
from kvtune_operator.cluster_vitals import ClusterVitals
from kvtune_operator.handlers import Login
from kvtune_operator.leader import Leader, LeaderEnd
from kvtune_operator.live_config import ConfigText, LiveConfig
from kvtune_operator.observed import Pulse


class Blocked:
    """Parts whose list of policies does not come, and what became of who asked for it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.ended = ""

    async def policies(self) -> tuple[Listed, ...]:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ended = "cancelled"
            raise
        return ()


class NoStore:
    """There is no ConfigMap."""

    async def read(self) -> ConfigText | None:
        return None

    async def warn(self, found: ConfigText, message: str) -> None:
        raise AssertionError(message)


class NoLease:
    """A lease that is lost already."""

    async def take_token(self, floor: int) -> int:
        raise LeaseLost("held by another")

    async def renew(self) -> None:
        raise LeaseLost("held by another")

    async def confirms(self, token: int) -> bool:
        return False

    def standby_waits(self) -> bool:
        return False


async def no_login() -> Login:
    raise AssertionError("nothing is watched before the start")


def leader(parts: Blocked) -> Leader:
    telemetry, clock = ClusterTelemetry(), WallClock()
    return Leader(
        parts=cast(Parts, parts),
        lease=NoLease(),
        config=LiveConfig(NoStore(), where="ConfigMap kvtune-operator"),
        settings=ClusterSettings(namespace="kvtune"),
        clock=clock,
        vitals=ClusterVitals(
            pulse=Pulse(started=0.0),
            telemetry=telemetry,
            monotonic=clock.monotonic,
            stuck_after_seconds=60.0,
        ),
        telemetry=telemetry,
        login=no_login,
    )


async def test_a_start_is_ended_with_a_leader_that_loses_its_lease_meanwhile() -> None:
    parts = Blocked()
    running = asyncio.create_task(leader(parts).run(asyncio.Event()))
    await parts.asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert parts.ended == "cancelled"
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_start_is_ended_when_the_process_is_told_to_stop() -> None:
    parts, stop = Blocked(), asyncio.Event()
    running = asyncio.create_task(leader(parts).run(stop))
    await parts.asked.wait()
    stop.set()

    assert await running is LeaderEnd.STOPPED
    assert parts.ended == "cancelled"
