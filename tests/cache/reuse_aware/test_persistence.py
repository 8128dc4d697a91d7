"""What was learned is kept over a restart; what does not fit is refused by the name of its field."""

import json
import random
from typing import Any

import pytest

from kvtune_cache.cache import plain_cache
from kvtune_cache.eviction.policy import REUSE_AWARE
from kvtune_cache.requests import Requests, serve_all
from kvtune_cache.reuse_aware.persistence import learned, restore
from kvtune_cache.reuse_aware.start import plain_reuse
from kvtune_cache.rules import Rules
from tests.cache.reuse_aware.states import sessions
from tests.cache.streams import distinct

RULES = Rules(REUSE_AWARE, 200)


def long_answers_return(rng: random.Random, number: int, style: int) -> bool:
    return rng.random() < (0.9 if style else 0.02)


def hits(requests: Requests, kept: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
    cache = plain_cache(distinct(requests), REUSE_AWARE)
    if kept is not None:
        restore(cache.reuse, kept)
    found = [0] * (len(requests.starts) - 1)
    serve_all(cache, RULES, requests, found)
    return sum(found), learned(cache.reuse)


def test_a_restart_with_what_was_learned_beats_a_cold_start() -> None:
    _, kept = hits(sessions(1, 2500, long_answers_return), None)
    cold = warm = 0
    for seed in range(2, 12):
        later = sessions(seed, 150, long_answers_return)
        cold += hits(later, None)[0]
        warm += hits(later, json.loads(json.dumps(kept)))[0]
    assert warm > 1.1 * cold


def test_what_is_restored_is_told_again() -> None:
    _, kept = hits(sessions(1, 300, long_answers_return), None)
    reuse = plain_reuse(4)
    restore(reuse, kept)
    assert learned(reuse) == kept


BAD = {
    "a version of the future": ("version", 2, "version: 2 is not 1"),
    "no version": ("version", None, "version: None is not 1"),
    "other axes": ("levels", [3, 3], "levels: "),
    "other bins": ("edges", [0.0, 1.0], "edges: "),
    "a count below zero": ("requests", -1, "requests: -1 is not a number >= 0"),
    "more than can be": ("requests", 10**400, "requests: is more than 1e"),
    "a mean that is no number": ("length_mean", float("nan"), "length_mean: nan is not"),
    "classes that are none": ("classes", [], "classes: "),
    "a class beyond all": ("classes", {"99999": {}}, "classes: '99999' is not a class below"),
    "a class without counts": ("classes", {"5": {}}, "classes.5.events: None is not a list of 30 numbers"),
    "events below zero": (
        "classes",
        {"5": {"events": [-1.0] * 30, "exposure": [0.0] * 30, "cluster": [0.0, 0.0]}},
        "classes.5.events: -1.0 is not a number >= 0",
    ),
    "exposure without end": (
        "classes",
        {"5": {"events": [1.0] * 30, "exposure": [float("inf")] * 30, "cluster": [0.0, 0.0]}},
        "classes.5.exposure: inf is not",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_foreign_data_is_refused_and_changes_nothing(case: str) -> None:
    field, value, message = BAD[case]
    reuse = plain_reuse(4)
    before = learned(reuse)
    with pytest.raises(ValueError, match=r"^" + message.replace(".", r"\.")):
        restore(reuse, {**before, field: value})
    assert learned(reuse) == before
