"""Fencing tokens of the operator's Lease: they only grow, and are stored before they are given."""

import pytest

from kvtune_api.errors import Unavailable
from kvtune_api.names import ANNOTATION_TOKEN
from tests.operator.lease_server import Machine, Server, held_by, held_by_after_silence


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
