"""Functions of the cache core, compiled for arrays: what they come to is what they come to on lists."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from kvtune_cache.blocks import Bytes, Integers, Longs
from kvtune_cache.eviction.policy import Eviction
from kvtune_cache.requests import Requests, cache_for, serve_all, serve_stream
from kvtune_cache.rules import Rules
from kvtune_cache.signals import Floats
from kvtune_lab.compiled import as_arrays, compiled, is_kept
from tests.cache.streams import distinct, packed, single

CHAINS = [
    [0, *range(100 * s + 1, 100 * s + 1 + n)]
    for s, n in zip((1, 2, 1, 3, 2, 1) * 60, range(3, 363), strict=True)
]
REQUESTS = packed([chain[: 3 + (7 * r) % 20] for r, chain in enumerate(CHAINS)])


def served(requests: Requests, rules: Rules, *, arrays: bool) -> tuple[list[int], int]:
    """Hit blocks of each request and how many blocks have left."""
    cache = cache_for(rules, distinct(requests))
    found = [0] * (len(requests.starts) - 1)
    if not arrays:
        return found, serve_all(cache, rules, requests, found)
    room = np.array(found, np.int32)
    run = compiled(serve_all, policy=rules.policy)
    left = run(as_arrays(cache), rules, as_arrays(requests), room)  # type: ignore[arg-type]
    return room.tolist(), left


@pytest.mark.parametrize("policy", list(Eviction))
def test_every_policy_does_the_same_compiled_and_plain(policy: Eviction) -> None:
    for rules in (
        Rules(int(policy), 7),
        Rules(int(policy), 40),
        Rules(int(policy), 40, ttl_seconds=9.0, pass_blocks=6, store_threshold=2),
        Rules(int(policy), 12, tail_first=0, pins=0, ttl_seconds=30.0, pass_blocks=3),
    ):
        plain = served(REQUESTS, rules, arrays=False)
        assert served(REQUESTS, rules, arrays=True) == plain
        assert sum(plain[0]) > 0 < plain[1]


def test_a_stream_of_single_blocks_is_served_as_requests_of_one_block() -> None:
    stream = single([(x * x) % 53 for x in range(2_000)])
    rules = Rules(int(Eviction.SIEVE), 12)
    found = [0] * len(stream.blocks)
    serve_all(cache_for(rules, distinct(stream)), rules, stream, found)
    plain = serve_stream(cache_for(rules, distinct(stream)), rules, stream.blocks)
    run = compiled(serve_stream, policy=int(Eviction.SIEVE))
    arrays = as_arrays(cache_for(rules, distinct(stream)))
    assert sum(found) == plain == run(arrays, rules, as_arrays(stream).blocks)


class Kinds(NamedTuple):
    """One field of each kind."""

    numbers: Integers
    wide: Longs
    small: Bytes
    real: Floats
    scalar: int = 7


def test_arrays_have_the_element_types_that_the_fields_say() -> None:
    arrays = as_arrays(Kinds([1], [2], [3], [4.0]))
    fields = [np.asarray(field).dtype.name for field in arrays[:4]]
    assert fields == ["int32", "int64", "uint8", "float64"]
    assert arrays.scalar == 7


PROGRAM = """
import numpy as np
from kvtune_cache.blocks import resident, plain_table
from kvtune_lab.compiled import as_arrays, compiled
run = compiled(resident)
print(run(as_arrays(plain_table(3))), sum(run.stats.cache_hits.values()))
"""


@pytest.mark.parametrize("home", ["", "file/below"])
def test_what_was_compiled_is_kept_for_the_next_process_where_the_folder_can_be_written(
    tmp_path: Path, home: str
) -> None:
    (tmp_path / "file").write_text("not a folder")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / home), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM]
    runs = [
        subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120) for _ in "12"
    ]
    assert [run.stderr for run in runs] == ["", ""]
    assert [run.stdout for run in runs] == ["0 0\n", f"0 {1 if home == '' else 0}\n"]


def test_what_nobody_has_compiled_is_not_kept() -> None:
    assert not is_kept(serve_stream, policy=99)
