"""The operator's Lease: one holder at a time, noticed when lost, with others that stand by."""

import pytest

from kvtune_api.names import ANNOTATION_STANDBY
from kvtune_operator.adapters.lease import LeaseLost
from tests.operator.lease_server import (
    DURATION,
    After,
    Machine,
    Server,
    candidate,
    held_by,
    held_by_after_silence,
)


async def test_the_first_candidate_takes_the_lease() -> None:
    server = Server()
    await held_by(server, "a")

    assert server.holder() == "a"


async def test_a_second_candidate_stands_by_while_the_first_renews() -> None:
    server = Server()
    first, one = await held_by(server, "a")
    second = candidate(server, two := Machine(), "b")

    for _ in range(50):
        assert not await second.acquire(After(1))
        await one.sleep(2.0)
        await first.renew()

    assert two.seconds > 3 * DURATION
    assert server.holder() == "a"


async def test_a_holder_that_is_silent_for_the_duration_is_followed() -> None:
    server = Server()
    await held_by(server, "a")
    second = candidate(server, two := Machine(), "b")

    assert await second.acquire(After(1000))

    assert DURATION <= two.seconds <= DURATION + 2.0
    assert server.holder() == "b"
    assert server.lease is not None and server.lease["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("unix_seconds", [0.0, 1_800_000_000.0, 4_000_000_000.0])
async def test_clocks_of_other_machines_do_not_matter(unix_seconds: float) -> None:
    server = Server()
    await held_by(server, "a")
    second = candidate(server, two := Machine(unix_seconds), "b")

    assert await second.acquire(After(1000))

    assert DURATION <= two.seconds <= DURATION + 2.0


async def test_a_released_lease_is_taken_at_the_next_look() -> None:
    server = Server()
    first, _ = await held_by(server, "a")
    await first.release()

    second, two = await held_by(server, "b")

    assert not first.held and second.held
    assert two.seconds == 0.0


async def test_a_candidate_that_is_told_to_stop_gives_up() -> None:
    server = Server()
    await held_by(server, "a")

    assert not await candidate(server, Machine(), "b").acquire(After(0))


async def test_a_candidate_waits_for_an_api_server_that_is_away() -> None:
    server = Server()
    server.broken = "connection refused"
    lease = candidate(server, Machine(), "a")

    assert not await lease.acquire(After(3))
    server.broken = None
    assert await lease.acquire(After(1))


async def test_renewing_while_the_server_is_away_is_tried_until_the_deadline_before_the_duration() -> None:
    server = Server()
    lease, machine = await held_by(server, "a")
    server.broken = "no answer within 4 s"

    with pytest.raises(LeaseLost, match="not renewed for 10 s: no answer within 4 s"):
        await lease.keep()

    assert 10.0 <= machine.seconds < DURATION
    assert not lease.held


async def test_a_short_absence_is_survived() -> None:
    server = Server()
    lease, machine = await held_by(server, "a")
    server.broken = "connection refused"
    await machine.sleep(6.0)
    await lease.renew()
    server.broken = None
    await lease.renew()

    assert lease.left_seconds() == 10.0


async def test_a_lease_that_another_has_taken_is_lost_at_once() -> None:
    server = Server()
    first, one = await held_by(server, "a")
    await held_by_after_silence(server, "b")

    with pytest.raises(LeaseLost, match="held by b"):
        await first.renew()
    assert one.seconds == 0.0


async def test_a_lease_that_was_deleted_is_lost() -> None:
    server = Server()
    lease, _ = await held_by(server, "a")
    server.lease = None

    with pytest.raises(LeaseLost, match="held by nobody"):
        await lease.renew()


async def test_a_strangers_annotation_does_not_cost_the_lease() -> None:
    server = Server()
    lease, _ = await held_by(server, "a")
    assert server.lease is not None
    server.lease["metadata"]["annotations"] = {"x": "y"}
    await server.replace("", server.lease)

    await lease.renew()

    assert lease.held
    assert server.annotation("x") == "y"


async def test_a_holder_knows_that_another_stands_by() -> None:
    server = Server()
    first, one = await held_by(server, "a")
    assert not first.standby_waits()

    await candidate(server, Machine(), "b").acquire(After(1))
    await first.renew()
    assert server.annotation(ANNOTATION_STANDBY).startswith("b ")
    assert first.standby_waits()

    await one.sleep(DURATION * 2)
    assert not first.standby_waits()


async def test_a_standby_of_an_earlier_holder_does_not_count() -> None:
    server = Server()
    first, _ = await held_by(server, "a")
    await candidate(server, Machine(), "b").acquire(After(1))
    await first.release()
    third, _ = await held_by(server, "c")
    await third.renew()

    assert not third.standby_waits()


async def test_a_standby_shows_itself_only_now_and_then() -> None:
    server = Server()
    await held_by(server, "a")
    writes = server.writes
    second = candidate(server, two := Machine(), "b")

    await second.acquire(After(7))

    assert two.seconds == 14.0
    assert server.writes - writes == 3


async def test_releasing_never_fails() -> None:
    server = Server()
    lease, _ = await held_by(server, "a")
    server.broken = "gone"
    await lease.release()

    assert server.holder() == "a"


async def test_a_lease_of_another_is_not_released() -> None:
    server = Server()
    first, _ = await held_by(server, "a")
    await held_by_after_silence(server, "b")

    await first.release()

    assert server.holder() == "b"
    assert not first.held
