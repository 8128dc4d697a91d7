"""The result file of a sweep."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kvtune_api.errors import Corrupt, Unavailable
from kvtune_lab.setups import Policy, Setup
from kvtune_lab.simulation import Evictions, Simulation
from kvtune_lab.sweep.results import Origin, OtherResults, ResultFile

ORIGIN = Origin(trace="t1", policies="p1")
DONE = Simulation(
    setup=Setup(policy=Policy.LRU, capacity_blocks=7, ttl_seconds=90.0),
    requests=3,
    block_references=9,
    distinct_blocks=8,
    prompt_tokens=130,
    hit_tokens=16,
    token_hit_rate=1 / 9,
    block_hit_rate=1 / 9,
    token_hit_rate_last_half=0.25,
    block_hit_rate_last_half=0.25,
    evictions=Evictions(pressure=1, ttl=2, passes=0, wanted_again=1, blocks_written=8),
)
OPTIMAL = replace(DONE, setup=Setup(policy=Policy.OPT, capacity_blocks=7), evictions=None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with two rows."""
    path = tmp_path / "sweep.jsonl"
    with ResultFile(path, ORIGIN) as results:
        results.add(DONE)
        results.add(OPTIMAL)
    return path


def test_rows_are_read_back_as_they_were(path: Path) -> None:
    with ResultFile(path, ORIGIN) as results:
        assert results.kept == {DONE.setup: DONE, OPTIMAL.setup: OPTIMAL}


def test_a_line_that_was_not_finished_is_cut_off_and_written_again(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(whole.index(b"\n") + 1, len(whole), 13):
        path.write_bytes(whole[:length])
        with ResultFile(path, ORIGIN) as results:
            assert len(results.kept) < 2
            for row in (DONE, OPTIMAL):
                if row.setup not in results.kept:
                    results.add(row)
        assert path.read_bytes() == whole, f"after {length} bytes"


def test_a_head_that_was_not_finished_begins_the_file_anew(path: Path) -> None:
    head = path.read_bytes().partition(b"\n")[0]
    for length in (0, 5, len(head)):
        path.write_bytes(head[:length])
        with ResultFile(path, ORIGIN) as results:
            assert results.kept == {}
        assert path.read_bytes() == head + b"\n"


@pytest.mark.parametrize("text", ["a poem\nin two lines\n", "a poem", '{"a": 1}\n'])
def test_a_file_of_another_kind_is_refused_and_not_touched(tmp_path: Path, text: str) -> None:
    poem = tmp_path / "poem"
    poem.write_text(text)
    with pytest.raises(OtherResults, match="poem:1: is not a result file of kvtune sweep"):
        ResultFile(poem, ORIGIN)
    assert poem.read_text() == text


@pytest.mark.parametrize(
    ("origin", "says"),
    [
        (replace(ORIGIN, trace="t2"), ":1: trace: t1 is not this trace, t2"),
        (replace(ORIGIN, policies="p2"), ":1: policies: p1 is another version of the policies than p2"),
    ],
)
def test_results_of_something_else_are_refused(path: Path, origin: Origin, says: str) -> None:
    before = path.read_bytes()
    with pytest.raises(OtherResults, match=says):
        ResultFile(path, origin)
    assert path.read_bytes() == before


def test_another_format_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"kvtune-sweep/1", b"kvtune-sweep/2"))
    with pytest.raises(OtherResults, match=":1: format: 'kvtune-sweep/2' is not 'kvtune-sweep/1'"):
        ResultFile(path, ORIGIN)


@pytest.mark.parametrize("damaged", ["{", "[]", '{"setup": 1}', '{"policy": "MRU"}'])
def test_a_damaged_row_is_named_with_its_line(path: Path, damaged: str) -> None:
    head, _, last = path.read_text().splitlines()
    path.write_text("\n".join([head, damaged, last]) + "\n")
    with pytest.raises(Corrupt, match=":2: is not a row of a sweep"):
        ResultFile(path, ORIGIN)


def test_a_row_out_of_its_limits_is_damaged(path: Path) -> None:
    path.write_text(path.read_text().replace('"capacity_blocks":7', '"capacity_blocks":0'))
    with pytest.raises(Corrupt, match=r":2: .*capacity: 0 is less than 1 block"):
        ResultFile(path, ORIGIN)


def test_two_sweeps_do_not_write_to_one_file(path: Path) -> None:
    with ResultFile(path, ORIGIN), pytest.raises(Unavailable, match="another sweep is writing to it"):
        ResultFile(path, ORIGIN)
    with ResultFile(path, ORIGIN) as results:
        assert len(results.kept) == 2


def test_a_folder_is_no_result_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        ResultFile(tmp_path, ORIGIN)


def test_the_first_line_tells_of_what_the_rows_are(path: Path) -> None:
    head = json.loads(path.read_text().splitlines()[0])
    assert head == {"format": "kvtune-sweep/1", "trace": "t1", "policies": "p1"}


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("token_hit_rate", "null", "token_hit_rate: null is not a rate from 0 to 1"),
        ("token_hit_rate_last_half", '"0.5"', 'token_hit_rate_last_half: "0.5" is not a rate'),
        ("block_hit_rate", "NaN", "block_hit_rate: NaN is not a rate"),
        ("block_hit_rate", "7.0", "block_hit_rate: 7.0 is not a rate"),
        ("hit_tokens", "true", "hit_tokens: true is not a count"),
        ("prompt_tokens", "-1", "prompt_tokens: -1 is not a count"),
        ("pressure", '"x"', 'evictions.pressure: "x" is not a count'),
        ("capacity_blocks", "true", "setup.capacity_blocks: true is not a whole number"),
        ("capacity_blocks", "1.5", "setup.capacity_blocks: 1.5 is not a whole number"),
        ("ttl_seconds", '"9"', 'setup.ttl_seconds: "9" is not a number or null'),
        ("ttl_seconds", "NaN", "ttl: nan s is not a length of time above 0"),
        ("policy", '"MRU"', "'MRU' is not a valid Policy"),
        ("policy", "[]", r"setup.policy: \[\] is not a name"),
        ("evictions", "null", "evictions: null does not go with policy LRU"),
        ("setup", "7", "setup: 7 is not an object"),
        ("extra", "1", "extra: is unknown"),
    ],
)
def test_a_damaged_field_is_named(path: Path, field: str, value: str, says: str) -> None:
    lines = path.read_bytes().decode().splitlines()
    row = json.loads(lines[1])
    part = next((one for one in (row, row["setup"], row["evictions"]) if field in one), row)
    part[field] = "HERE"
    lines[1] = json.dumps(row).replace('"HERE"', value)
    path.write_text("\n".join(lines) + "\n")

    with pytest.raises(Corrupt, match=f"{path}:2: is not a row of a sweep: {says}"):
        ResultFile(path, ORIGIN)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("[" * 100_000, "is nested too deeply"),
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ("{}", "block_hit_rate: is missing"),
    ],
)
def test_a_line_that_is_no_row_is_told_in_plain_words(path: Path, line: str, says: str) -> None:
    path.write_text(path.read_text() + line + "\n")

    with pytest.raises(Corrupt, match=f":4: is not a row of a sweep: {says}$"):
        ResultFile(path, ORIGIN)


def test_a_head_that_is_nested_too_deeply_is_damaged(path: Path) -> None:
    head = '{"format":"kvtune-sweep/1","trace":' + "[" * 100_000
    path.write_text(head + "\n")

    with pytest.raises(Corrupt, match=":1: is not the head of a result file: is nested too deeply"):
        ResultFile(path, ORIGIN)
