"""The token file: read at every write, never open."""

import logging
import os
from pathlib import Path

import pytest

from kvtune_agent.tokens import TokenFile
from kvtune_api.errors import Unavailable


def token_file(folder: Path, text: bytes = b"secret\n", mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_bytes(text)
    path.chmod(mode)
    return path


GRANTED = {
    "as written": "Bearer secret",
    "scheme in lower case": "bearer secret",
    "blanks": "Bearer  secret ",
}


@pytest.mark.parametrize("header", GRANTED.values(), ids=GRANTED.keys())
def test_the_token_is_granted(tmp_path: Path, header: str) -> None:
    assert TokenFile(token_file(tmp_path)).grants(header)


DENIED = {
    "no header": None,
    "empty": "",
    "the token without its scheme": "secret",
    "another scheme": "Basic secret",
    "a prefix": "Bearer secre",
    "more": "Bearer secrets",
    "another case": "Bearer Secret",
    "empty token": "Bearer ",
    "no ASCII": "Bearer sécrét\u20ac",
}


@pytest.mark.parametrize("header", DENIED.values(), ids=DENIED.keys())
def test_anything_else_is_denied(tmp_path: Path, header: str | None) -> None:
    assert not TokenFile(token_file(tmp_path)).grants(header)


def test_a_token_with_letters_beyond_ascii_is_compared_by_its_bytes(tmp_path: Path) -> None:
    tokens = TokenFile(token_file(tmp_path, "schlüssel".encode()))

    assert tokens.grants("Bearer " + "schlüssel".encode().decode("latin-1"))


def test_a_changed_file_counts_at_once_and_the_old_token_no_longer(tmp_path: Path) -> None:
    tokens = TokenFile(token_file(tmp_path))
    assert tokens.grants("Bearer secret")

    token_file(tmp_path, b"rotate")

    assert tokens.grants("Bearer rotate")
    assert not tokens.grants("Bearer secret")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"a b", "more than one word"),
        (b"x" * 5000, "more than 4096 bytes"),
    ],
)
def test_a_file_without_a_usable_token_grants_nothing(tmp_path: Path, text: bytes, words: str) -> None:
    tokens = TokenFile(token_file(tmp_path, text))

    with pytest.raises(Unavailable, match=words):
        tokens.grants("Bearer ")


def test_a_missing_file_grants_nothing_until_it_is_there(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "token")

    with pytest.raises(Unavailable, match="token cannot be read: No such file"):
        tokens.grants("Bearer secret")
    token_file(tmp_path)

    assert tokens.grants("Bearer secret")


def test_a_pipe_or_a_directory_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(Unavailable, match="is not a file"):
            TokenFile(path).grants("Bearer secret")


def test_a_file_that_everyone_can_read_is_warned_about_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = TokenFile(token_file(tmp_path, mode=0o644))
    with caplog.at_level(logging.WARNING):
        tokens.grants(None)
        tokens.grants(None)

    assert [record.message for record in caplog.records] == ["token file is readable by everyone"]
