"""Guard the shape of the checkout: rooms, packages, names and sizes of modules.

The traps come from docs/architecture.md, "Rooms": each was met once and is silent until it bites.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("api", "cache", "tuner", "operator", "agent", "lab", "cli")
SPECIAL_TESTS = frozenset({"benchmarks", "charts", "cluster", "contracts", "e2e", "fakes", "tools"})
VAGUE_NAMES = frozenset(
    {"base", "common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
)
LINES_MAX = 300
LONGER_MODULES: frozenset[str] = frozenset()


def _modules(*folders: str) -> list[Path]:
    return sorted(
        path.relative_to(ROOT)
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if "__pycache__" not in path.parts
    )


ROOM_MODULES = _modules(*ROOMS)
ALL_MODULES = _modules(*ROOMS, "tools", "tests")


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_a_plain_folder_with_one_import_package(room: str) -> None:
    packages = [path.parent.name for path in (ROOT / room).glob("*/__init__.py")]

    assert not (ROOT / room / "__init__.py").exists(), f"{room}/__init__.py would shadow other packages"
    assert packages == [f"kvtune_{room}"]


def test_every_folder_of_a_room_with_modules_is_a_package() -> None:
    missing = {
        str(path.parent)
        for path in ROOM_MODULES
        if len(path.parts) > 2 and not (ROOT / path.parent / "__init__.py").exists()
    }

    assert missing == set()


def test_every_folder_with_tests_is_a_package() -> None:
    folders = {path.parent for path in _modules("tests")}
    missing = sorted(str(folder) for folder in folders if not (ROOT / folder / "__init__.py").exists())

    assert missing == [], "without it pytest may put the folder's name in place of the standard library's"


def test_every_folder_under_tests_is_named_for_a_room_or_a_known_kind() -> None:
    folders = {path.parts[1] for path in _modules("tests") if len(path.parts) > 2}

    assert folders <= set(ROOMS) | SPECIAL_TESTS


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = [str(path) for path in ALL_MODULES if VAGUE_NAMES & {path.stem, *path.parts[:-1]}]

    assert vague == []


def test_modules_are_short_enough_to_read() -> None:
    lines = {str(path): len((ROOT / path).read_text().splitlines()) for path in ROOM_MODULES}
    too_long = {path: n for path, n in lines.items() if n >= LINES_MAX and path not in LONGER_MODULES}

    assert too_long == {}, f"split them: the limit is {LINES_MAX} lines"


def test_every_module_says_what_it_is_in_its_first_line() -> None:
    silent = [
        f"{path}: {first_line!r}"
        for path in _modules(*ROOMS, "tools")
        if not (first_line := _first_docstring_line(path)).endswith(".")
    ]

    assert silent == [], "a module docstring begins with a sentence and its full stop, on one line"


def test_a_package_file_holds_its_docstring_alone() -> None:
    busy = [
        str(path)
        for path in ROOM_MODULES
        if path.name == "__init__.py" and len(ast.parse((ROOT / path).read_text()).body) > 1
    ]

    assert busy == [], "no re-exports: import from the module itself"


def test_python_started_in_the_root_finds_the_operator_of_the_standard_library() -> None:
    code = "import operator, runpy; print(operator.itemgetter(1)('ab'), operator.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert done.stdout.startswith("b "), done.stderr
    assert str(ROOT / "operator") not in done.stdout


def test_python_m_works_in_the_root() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "json.tool", "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0, done.stderr


def _first_docstring_line(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse((ROOT / path).read_text())) or ""
    return docstring.partition("\n")[0].rstrip()
