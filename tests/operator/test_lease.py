"""The operator's Lease: one holder at a time, noticed when lost, with a fencing token that only grows."""

import copy
from typing import Any

import pytest

from kvtune_api.errors import Conflict, Unavailable
from kvtune_api.names import ANNOTATION_STANDBY, ANNOTATION_TOKEN
from kvtune_operator.adapters.lease import Lease, LeaseLost
from kvtune_operator.adapters.lease_record import LeaseSettings

DURATION = 15.0


class Machine:
    """A clock per machine: monotonic time moves with sleeps, unix time may be anything."""

    def __init__(self, unix_seconds: float = 1_900_000_000.0) -> None:
        self.seconds = 0.0
        self._unix = unix_seconds

    def monotonic(self) -> float:
        return self.seconds

    def unix_milliseconds(self) -> int:
        return int((self._unix + self.seconds) * 1000)

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Server:
    """Holds one Lease as an API server does: a write with an old resource version is a conflict."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.broken: str | None = None
        self.writes = 0

    async def get(self, path: str) -> dict[str, Any] | None:
        self._check()
        return copy.deepcopy(self.lease)

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._check()
        if self.lease is not None:
            raise Conflict("it exists")
        return self._stored(body)

    async def replace(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._check()
        held = (self.lease or {}).get("metadata", {}).get("resourceVersion")
        if body["metadata"].get("resourceVersion") != held:
            raise Conflict("it was written by somebody else")
        return self._stored(body)

    def holder(self) -> str:
        assert self.lease is not None
        return str(self.lease["spec"]["holderIdentity"])

    def annotation(self, name: str) -> str:
        assert self.lease is not None
        return str(self.lease["metadata"].get("annotations", {}).get(name, ""))

    def _check(self) -> None:
        if self.broken is not None:
            raise Unavailable(self.broken)

    def _stored(self, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.writes += 1
        self.lease = copy.deepcopy(body)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return copy.deepcopy(self.lease)


class After:
    """Says stop after so many looks."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


def candidate(server: Server, machine: Machine, identity: str) -> Lease:
    settings = LeaseSettings(
        namespace="kvtune", name="operator", identity=identity, duration_seconds=DURATION
    )
    return Lease(server, settings, machine)


async def held_by(server: Server, identity: str, machine: Machine | None = None) -> tuple[Lease, Machine]:
    machine = machine or Machine()
    lease = candidate(server, machine, identity)
    assert await lease.acquire(After(1))
    return lease, machine


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


async def held_by_after_silence(server: Server, identity: str) -> Lease:
    lease = candidate(server, Machine(), identity)
    assert await lease.acquire(After(1000))
    return lease


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


async def test_a_token_is_above_the_previous_the_floor_and_the_time() -> None:
    server = Server()
    lease, machine = await held_by(server, "a")

    first = await lease.take_token(floor=0)
    second = await lease.take_token(floor=0)
    third = await lease.take_token(floor=second + 1000)

    assert first == machine.unix_milliseconds() + 1
    assert second == first + 1
    assert third == second + 1001
    assert server.annotation(ANNOTATION_TOKEN) == str(third)


async def test_a_token_outlives_holders_with_a_slow_clock() -> None:
    server = Server()
    first, _ = await held_by(server, "a")
    token = await first.take_token(floor=0)
    await first.release()
    second, _ = await held_by(server, "b", Machine(unix_seconds=5.0))

    assert await second.take_token(floor=3) == token + 1


@pytest.mark.parametrize("stored", [str(2**53), str(2**53 - 1), "9" * 5000])
async def test_a_stored_token_that_cannot_be_sent_is_ignored(stored: str) -> None:
    server = Server()
    lease, _ = await held_by(server, "a")
    assert server.lease is not None
    server.lease["metadata"]["annotations"] = {ANNOTATION_TOKEN: stored}
    await lease.release()
    second, two = await held_by(server, "b")

    assert await second.take_token(floor=0) == two.unix_milliseconds() + 1


async def test_a_floor_that_cannot_be_true_is_ignored_and_never_stored() -> None:
    server = Server()
    lease, machine = await held_by(server, "a")

    token = await lease.take_token(floor=2**53)

    assert token == machine.unix_milliseconds() + 1
    assert server.annotation(ANNOTATION_TOKEN) == str(token)


async def test_a_token_is_not_given_before_it_is_stored() -> None:
    server = Server()
    lease, _ = await held_by(server, "a")
    server.broken = "etcd is full"

    with pytest.raises(Unavailable, match="etcd is full"):
        await lease.take_token(floor=0)


async def test_a_holder_is_confirmed_while_the_lease_as_stored_is_its_own_with_its_token() -> None:
    server = Server()
    first, _ = await held_by(server, "a")
    token = await first.take_token(floor=0)
    assert await first.confirms(token)
    assert not await first.confirms(token - 1)

    await held_by_after_silence(server, "b")
    assert not await first.confirms(token)
    server.broken = "no answer"
    with pytest.raises(Unavailable, match="no answer"):
        await first.confirms(token)


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
