"""What the state directory keeps: experiments, commands, the token, withdrawn policies."""

import json
import logging
from datetime import timedelta

import pytest

from kvtune_api.errors import Corrupt
from kvtune_operator.adapters.files import FileObjects
from kvtune_operator.statedir import StateDir, Wish, experiments, keep_token, leave, previous_token
from kvtune_tuner.model import Verb
from tests.fakes.clock import ORIGIN
from tests.fakes.samples import experiment, policy


async def test_only_the_newest_experiments_are_kept(state: StateDir) -> None:
    objects = FileObjects(state, history_limit=3)
    for number in range(1, 6):
        await objects.put_experiment(experiment(f"chat-{number}", number=number))

    assert await objects.experiments("chat") == ("chat-3", "chat-4", "chat-5")
    assert sorted(path.stem for path in state.experiments.iterdir()) == ["chat-3", "chat-4", "chat-5"]
    objects.close()


async def test_experiments_are_found_again_after_a_restart(state: StateDir) -> None:
    objects = FileObjects(state)
    for number in (9, 10):
        await objects.put_experiment(experiment(f"chat-{number}", number=number))
    objects.close()

    again = FileObjects(state)

    assert await again.experiments("chat") == ("chat-9", "chat-10")
    assert [item.metadata.name for item in experiments(state)] == ["chat-9", "chat-10"]
    again.close()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("1.json", b""),
        ("2.json", b"{"),
        ("3.json", b'{"verb": "destroy"}'),
        ("4.json", b'{"verb": "abort", "force": true}'),
        ("5.txt", b"abort"),
        ("6.json", b"\xff\xfe"),
    ],
)
async def test_an_unreadable_command_is_set_aside_with_the_reason_and_hides_no_other(
    state: StateDir, caplog: pytest.LogCaptureFixture, name: str, content: bytes
) -> None:
    objects = FileObjects(state)
    (state.inbox / name).write_bytes(content)
    leave(state, Wish(verb=Verb.PAUSE), unix_milliseconds=5)

    with caplog.at_level(logging.WARNING):
        commands = await objects.commands("chat")

    assert [command.verb for command in commands] == [Verb.PAUSE]
    assert (state.bad / name).read_bytes() == content
    assert "line 1" in (state.bad / f"{name}.reason").read_text()
    assert "unreadable command set aside" in caplog.text
    assert [command.verb for command in await objects.commands("chat")] == [Verb.PAUSE]
    objects.close()


async def test_a_command_for_another_policy_is_left_alone(state: StateDir) -> None:
    objects = FileObjects(state)
    leave(state, Wish(verb=Verb.PAUSE, policy="code"), unix_milliseconds=5)

    assert await objects.commands("chat") == ()
    assert len(await objects.commands("code")) == 1
    objects.close()


async def test_half_a_command_is_not_seen(state: StateDir) -> None:
    objects = FileObjects(state)
    (state.inbox / ".1.json.99.partial").write_text('{"verb"')

    assert await objects.commands("chat") == ()
    objects.close()


def test_a_token_is_kept_over_restarts_and_a_damaged_one_is_refused(state: StateDir) -> None:
    state.create()
    assert previous_token(state) == 0

    keep_token(state, 77)

    assert previous_token(state) == 77
    state.fence.write_text(json.dumps({"token": "many"}))
    with pytest.raises(Corrupt, match=r"fence\.json line 1: token"):
        previous_token(state)


async def test_a_withdrawn_policy_is_marked_once_and_wanted_again_when_it_is_applied(state: StateDir) -> None:
    objects = FileObjects(state)
    first = await objects.apply_policy(policy())
    await objects.withdraw_policy("chat", ORIGIN)
    await objects.withdraw_policy("chat", ORIGIN + timedelta(seconds=9))
    marked = await objects.policy("chat")
    again = await objects.apply_policy(policy())
    edited = await objects.apply_policy(policy(paused=True))
    objects.close()

    assert marked is not None and marked.metadata.deletion_timestamp == ORIGIN.isoformat()
    assert again.metadata.deletion_timestamp is None
    assert (again.metadata.uid, again.metadata.generation) == (first.metadata.uid, 1)
    assert edited.metadata.generation == 2


async def test_a_withdrawn_policy_that_is_edited_is_wanted_again(state: StateDir) -> None:
    objects = FileObjects(state)
    await objects.apply_policy(policy())
    await objects.withdraw_policy("chat", ORIGIN)
    edited = await objects.apply_policy(policy(paused=True))
    await objects.withdraw_policy("none", ORIGIN)
    objects.close()

    assert edited.metadata.deletion_timestamp is None
