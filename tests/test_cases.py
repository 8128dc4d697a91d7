"""The table of cases names every case, and only tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| ?(.*?) ?\|$")
EXPECTED = [number for number in range(1, 45) if number != 40]


def _table() -> list[tuple[int, str, str, list[str]]]:
    lines = (ROOT / "docs" / "cases.md").read_text(encoding="utf-8").splitlines()
    found = [match.groups() for line in lines if (match := ROW.match(line))]
    return [
        (int(number), what, state, re.findall(r"`([^`]+)`", tests)) for number, what, state, tests in found
    ]


def test_every_case_stands_in_the_table_once() -> None:
    assert [number for number, *_ in _table()] == EXPECTED


def test_every_case_is_done_next_or_says_why_not() -> None:
    for number, _, state, tests in _table():
        assert state.startswith(("done", "next", "why not: ")), number
        assert bool(tests) == state.startswith("done"), number


def test_every_test_that_the_table_names_exists() -> None:
    for number, _, _, tests in _table():
        for test in tests:
            file, _, name = test.partition("::")
            text = (ROOT / "tests" / file).read_text(encoding="utf-8")
            assert f"def {name}(" in text, f"case {number}: {test}"


def test_every_test_named_by_a_case_stands_in_the_row_of_that_case() -> None:
    named = {test for *_, tests in _table() for test in tests}
    stated = {number for number, _, state, _ in _table() if state.startswith("done")}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for numbers in re.findall(r"def test_case((?:_\d\d)+)_", path.read_text(encoding="utf-8")):
            assert {int(number) for number in numbers.strip("_").split("_")} <= stated
    assert len(named) > 30
