"""Hints of clients: what may be said, what not, and the one number that comes of it."""

from typing import Any

import pytest

from kvtune_api.codec import dump, parse
from kvtune_api.errors import SpecError
from kvtune_api.hints import OVER, TOOL_SECONDS, Hint


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ({}, 0.0),
        ({"sessionEnded": True}, OVER),
        ({"toolRunning": True}, TOOL_SECONDS),
        ({"expectedReturnSeconds": 30}, 30.0),
        ({"toolRunning": True, "expectedReturnSeconds": 5}, 5.0),
        ({"requestKind": 3}, 0.0),
    ],
)
def test_a_hint_is_the_seconds_until_the_session_returns(said: dict[str, Any], seconds: float) -> None:
    hint = parse(Hint, said)

    assert hint.returns_in_seconds == seconds
    assert parse(Hint, dump(hint)) == parse(Hint, hint.said()) == hint
    assert hint.said() == said


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"sessionEnded": True, "toolRunning": True}, "hint: sessionEnded: true contradicts toolRunning"),
        (
            {"sessionEnded": True, "expectedReturnSeconds": 3},
            "hint: sessionEnded: true contradicts expectedReturnSeconds",
        ),
        ({"expectedReturnSeconds": -1}, "hint.expectedReturnSeconds: -1: input should be greater than 0"),
        ({"expectedReturnSeconds": "30s"}, "hint.expectedReturnSeconds: '30s' is not a number"),
        ({"expectedReturnSeconds": float("nan")}, "hint.expectedReturnSeconds: "),
        ({"sessionEnded": "yes"}, "hint.sessionEnded: 'yes': input should be a valid boolean"),
        ({"requestKind": 6}, "hint.requestKind: 6: input should be less than or equal to 5"),
        ({"requestKind": "chat"}, "hint.requestKind: 'chat' is not a number"),
        ({"ended": True}, "hint.ended: unknown field"),
        (7, "hint: must be an object, not 7"),
    ],
)
def test_what_no_hint_can_be_is_refused_by_its_field(said: object, words: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse(Hint, said, root="hint")

    assert str(refused.value).startswith(words)
    assert len(refused.value.problems) == 1
