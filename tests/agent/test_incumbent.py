"""The incumbent's file: survives, is replaced whole, and is never guessed at."""

from dataclasses import replace
from pathlib import Path

import pytest

from kvtune_agent.apply import Fence, Held
from kvtune_agent.exits import StateUnavailable
from kvtune_agent.incumbent import StateDir, kept, open_state_dir, restored
from kvtune_api.errors import Corrupt
from tests.agent.samples import BETTER, START

FENCE = Fence(token=7, policy_uid="p1", generation=3, assignment="abc")


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return open_state_dir(tmp_path / "deep" / "state")


def test_nothing_is_kept_at_first(state: StateDir) -> None:
    assert state.load() is None


def test_the_incumbent_and_the_fence_come_back_and_the_candidate_does_not(state: StateDir) -> None:
    held = Held(incumbent=START, fence=FENCE, candidate=BETTER, lease_ends=5.0, lease_lapses=2)
    state.save(kept(held))

    loaded = state.load()

    assert loaded is not None
    assert restored(loaded, BETTER) == Held(incumbent=START, fence=FENCE)


def test_a_file_of_a_version_that_lacked_a_knob_gets_it_from_the_start_configuration(
    state: StateDir,
) -> None:
    older = replace(START, eviction_policy=None, store_threshold=None)
    state.save(kept(Held(incumbent=older)))

    loaded = state.load()

    assert loaded is not None
    assert restored(loaded, BETTER).incumbent == START


def test_a_save_leaves_no_other_file_behind(state: StateDir) -> None:
    state.save(kept(Held(incumbent=START)))
    state.save(kept(Held(incumbent=BETTER)))

    assert sorted(path.name for path in state.path.iterdir()) == ["incumbent.json", "lock"]


def test_a_torn_write_of_the_file_beside_does_not_matter(state: StateDir) -> None:
    state.save(kept(Held(incumbent=START)))
    state.file.with_name("incumbent.json.tmp").write_text('{"version": 1, "incu')

    loaded = state.load()

    assert loaded is not None
    assert loaded.incumbent == START


GOOD = """{
  "version": 1,
  "incumbent": {
    "cacheTTL": "30s",
    "tiers": {}
  },
  "token": 1,
  "policyUID": "p1",
  "generation": 2,
  "assignment": ""
}
"""
CORRUPT: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "line 1: the file is empty"),
    "torn": (GOOD[:60].encode(), "line 5: "),
    "not JSON": (GOOD.replace('"token": 1,', '"token" 1,').encode(), "line 7: Expecting ':' delimiter"),
    "not text": (b'{\n\n"a": "\xff\xfe"}', "line 3: is not UTF-8 text"),
    "another version": (GOOD.replace('"version": 1', '"version": 2').encode(), "line 2: version"),
    "an unknown field": (GOOD.replace('"token"', '"tokne"').encode(), "token"),
    "a value out of its limits": (GOOD.replace("30s", "0s").encode(), "line 4: incumbent.cacheTTL: '0s'"),
    "a list": (b"[]", "line 1: "),
    "nested without end": (b"[" * 100_000, "line 1: "),
}


@pytest.mark.parametrize(("text", "words"), CORRUPT.values(), ids=CORRUPT.keys())
def test_a_corrupt_file_is_refused_with_its_name_and_line_and_what_to_do(
    state: StateDir, text: bytes, words: str
) -> None:
    state.file.write_bytes(text)

    with pytest.raises(Corrupt) as caught:
        state.load()

    assert str(state.file) in str(caught.value)
    assert words in str(caught.value)
    assert "Restore the file, or remove it" in str(caught.value)


def test_the_good_file_of_these_tests_is_good(state: StateDir) -> None:
    state.file.write_text(GOOD)

    assert state.load() is not None


def test_a_second_agent_on_the_same_directory_is_refused_until_the_first_ends(state: StateDir) -> None:
    with pytest.raises(StateUnavailable, match="belongs to another running agent"):
        open_state_dir(state.path)

    state.close()
    open_state_dir(state.path).close()


def test_a_directory_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(
        StateUnavailable, match=r"state directory .*/file/state cannot be used: Not a directory"
    ):
        open_state_dir(tmp_path / "file" / "state")


def test_a_failed_save_names_the_file_and_keeps_the_old_one(state: StateDir) -> None:
    state.save(kept(Held(incumbent=START)))
    state.file.with_name("incumbent.json.tmp").mkdir()

    with pytest.raises(StateUnavailable, match=r"incumbent.json cannot be written: Is a directory"):
        state.save(kept(Held(incumbent=BETTER)))

    loaded = state.load()
    assert loaded is not None
    assert loaded.incumbent == START
