"""Following the policy's file: edits, wrong edits, and its removal after three looks."""

from datetime import datetime
from pathlib import Path

import pytest
import yaml

from kvtune_api.codec import dump
from kvtune_api.errors import Unavailable
from kvtune_api.names import Reason
from kvtune_api.policy import KVCachePolicy
from kvtune_operator.policy_file import LOOKS_BEFORE_REMOVED, PolicyFile
from tests.fakes.clock import ORIGIN, FakeClock
from tests.fakes.objects import FakeEvents
from tests.fakes.samples import policy


class Store:
    """What was applied and withdrawn."""

    def __init__(self) -> None:
        self.applied: list[KVCachePolicy] = []
        self.withdrawn: list[tuple[str, datetime]] = []
        self.broken = False

    async def apply_policy(self, document: KVCachePolicy) -> KVCachePolicy:
        self.applied.append(document)
        return document

    async def withdraw_policy(self, name: str, now: datetime) -> None:
        if self.broken:
            raise Unavailable("state: No space left on device")
        self.withdrawn.append((name, now))


class Following:
    """A file, who follows it, and what came of it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "policy.yaml"
        self.write(policy())
        self.store, self.events, self.said = Store(), FakeEvents(), list[str]()
        self.file = PolicyFile(
            self.path, policy(), store=self.store, events=self.events, clock=FakeClock(), say=self.said.append
        )

    def write(self, document: KVCachePolicy) -> None:
        self.path.write_text(yaml.safe_dump(dump(document)))

    async def look(self, times: int = 1) -> None:
        for _ in range(times):
            await self.file.look()

    @property
    def reasons(self) -> list[Reason]:
        return [one.event.reason for one in self.events.recorded]


@pytest.fixture
def following(tmp_path: Path) -> Following:
    return Following(tmp_path)


async def test_an_unchanged_file_is_not_applied_again(following: Following) -> None:
    await following.look(5)

    assert following.store.applied == []


async def test_an_edit_is_applied_once(following: Following) -> None:
    following.write(policy(paused=True))
    await following.look(3)

    assert [document.spec.paused for document in following.store.applied] == [True]


async def test_a_wrong_edit_is_told_once_and_not_applied(following: Following) -> None:
    following.path.write_text("kind: KVCachePolicy\nspec: 7\n")
    await following.look(3)

    assert following.store.applied == []
    assert following.reasons == [Reason.INVALID]


async def test_another_policys_name_is_told_and_not_applied(following: Following) -> None:
    following.write(policy("other"))
    await following.look()

    assert following.store.applied == []
    assert "metadata.name: is now other" in following.events.recorded[0].event.message


async def test_a_file_that_is_away_for_a_moment_withdraws_nothing(following: Following) -> None:
    following.path.unlink()
    await following.look(LOOKS_BEFORE_REMOVED - 1)
    following.write(policy())
    await following.look()

    assert following.store.withdrawn == []


async def test_a_removed_file_withdraws_the_policy_and_says_so_once(following: Following) -> None:
    following.path.unlink()
    await following.look(LOOKS_BEFORE_REMOVED + 2)

    assert following.store.withdrawn[0] == ("chat", ORIGIN)
    assert following.reasons == [Reason.SUPERSEDED]
    assert len(following.said) == 1
    assert "policy.yaml was removed" in following.said[0]


async def test_a_store_that_fails_is_asked_again(following: Following) -> None:
    following.path.unlink()
    following.store.broken = True
    await following.look(LOOKS_BEFORE_REMOVED - 1)
    with pytest.raises(Unavailable):
        await following.look()
    following.store.broken = False
    await following.look()

    assert [name for name, _ in following.store.withdrawn] == ["chat"]


async def test_a_file_that_comes_back_unchanged_is_applied_again(
    following: Following, tmp_path: Path
) -> None:
    aside = tmp_path / "aside"
    following.path.rename(aside)
    await following.look(LOOKS_BEFORE_REMOVED)
    aside.rename(following.path)
    await following.look(2)

    assert len(following.store.applied) == 1


async def test_a_file_that_cannot_be_looked_at_is_not_a_removal(following: Following) -> None:
    following.path.unlink()
    following.path.symlink_to(following.path)
    for _ in range(LOOKS_BEFORE_REMOVED + 1):
        with pytest.raises(Unavailable, match="symbolic links"):
            await following.look()

    assert following.store.withdrawn == []
