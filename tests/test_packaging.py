"""What is shipped: the wheel, the lock files, and how light each extra stays.

Needs no network. What concerns the installed distribution is skipped where kvtune runs from sources alone.
"""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata, util
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("api", "cache", "tuner", "operator", "agent", "lab", "cli")
LOCKS = ("run", "dev", "agent")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# The extras with which a process runs that imports the room; the base (pydantic) always counts.
EXTRAS_OF_ROOM = {
    "api": (),
    "cache": (),
    "tuner": ("control", "lab"),
    "operator": ("control",),
    "agent": ("agent", "gpu"),
    "lab": ("lab", "dask"),
    "cli": ("cli", "all"),
}
# What an import comes with: a name of its own, or a part that its parent always brings.
DISTRIBUTION_OF_IMPORT = {
    "click": "typer",
    "pydantic_core": "pydantic",
    "requests": "prometheus-api-client",
    "starlette": "fastapi",
    "urllib3": "prometheus-api-client",
    "yaml": "pyyaml",
}


# The wheel


@pytest.fixture(scope="module")
def wheel_files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    if util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed: make install-dev")
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_wheel_holds_every_package_of_the_rooms(wheel_files: list[str]) -> None:
    packages = {name.partition("/")[0] for name in wheel_files if name.endswith("/__init__.py")}

    assert packages == {f"kvtune_{room}" for room in ROOMS}


def test_the_wheel_holds_every_module_of_the_rooms(wheel_files: list[str]) -> None:
    modules = {
        str(path.relative_to(ROOT / room))
        for room in ROOMS
        for path in (ROOT / room).rglob("kvtune_*/**/*.py")
    }

    assert modules <= set(wheel_files)


def test_the_wheel_holds_nothing_but_packages_and_metadata(wheel_files: list[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel_files}

    assert {top for top in tops if not top.startswith("kvtune")} == set()


# The lock files


def _pins(lock: str) -> list[str]:
    """Return each pinned requirement of a lock file as one line, its hashes on it."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_file_names_no_place(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()

    assert (
        re.findall(r"://|^\s*-[^-]|--(?!hash=)[a-z-]+| @ |/(?:opt|root|home|tmp|usr)/", text, re.MULTILINE)
        == []
    )


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_of_a_lock_file_is_exact_and_has_a_hash(lock: str) -> None:
    pin = re.compile(r"[a-z0-9][a-z0-9.-]*==\S+( ; [^-]+?)?( +--hash=sha256:[0-9a-f]{64})+ *")

    assert [line[:80] for line in _pins(lock) if not pin.fullmatch(line)] == []


def test_the_lock_of_development_holds_every_pin_of_the_other() -> None:
    run, dev = ({line.partition(" --hash")[0].strip() for line in _pins(lock)} for lock in ("run", "dev"))

    assert run - dev == set()


@pytest.mark.parametrize("name", ["torch", "triton", "nvidia-cuda-runtime"])
@pytest.mark.parametrize("lock", LOCKS)
def test_a_machine_without_a_gpu_installs_no_gpu_library(lock: str, name: str) -> None:
    assert not [line for line in _pins(lock) if line.startswith(f"{name}==")]


# The extras


def _declared(extra: str | None) -> set[str]:
    """Return the distributions that the project itself asks for, with an extra or (None) in the base."""
    lines = PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]
    names: set[str] = set()
    for requirement in map(Requirement, lines):
        if requirement.name == "kvtune":
            names = names.union(*map(_declared, requirement.extras))
        else:
            names.add(canonicalize_name(requirement.name))
    return names


def _resolved(extra: str) -> set[str]:
    """Return every installed distribution that `kvtune[extra]` needs, walking the installed metadata."""
    names: set[str] = set()
    waiting = [Requirement(f"kvtune[{extra}]")]
    walked: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        names.add(name)
        for wanted in ("", *requirement.extras):
            if (name, wanted) in walked:
                continue
            walked.add((name, wanted))
            needs = map(Requirement, metadata.requires(name) or ())
            waiting += [r for r in needs if r.marker is None or r.marker.evaluate({"extra": wanted})]
    return names


def _skip_unless_installed() -> None:
    try:
        metadata.distribution("kvtune")
    except metadata.PackageNotFoundError:
        pytest.skip("kvtune runs from its sources, not installed: make install-dev")


def test_the_base_needs_pydantic_alone() -> None:
    assert _declared(None) == {"pydantic"}


def test_the_installed_agent_brings_no_tuner_and_no_operator_to_a_node() -> None:
    _skip_unless_installed()
    names = _resolved("agent")

    assert {"kvtune", "fastapi", "uvicorn", "starlette", "pydantic"} <= names
    assert names & {"optuna", "kopf", "kubernetes", "numpy", "sqlalchemy", "prometheus-api-client"} == set()


def test_the_installed_control_plane_finds_all_that_it_needs() -> None:
    _skip_unless_installed()

    assert {"kopf", "optuna", "kubernetes", "httpx"} <= _resolved("control")


def test_the_command_is_installed() -> None:
    _skip_unless_installed()
    [command] = metadata.entry_points(group="console_scripts", name="kvtune")

    assert command.value == "kvtune_cli.__main__:main"


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_its_extras_declare(room: str) -> None:
    allowed = _declared(None).union(*map(_declared, EXTRAS_OF_ROOM[room]))
    undeclared = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / room).rglob("*.py")
        for name in _third_party_imports(path)
        if DISTRIBUTION_OF_IMPORT.get(name, canonicalize_name(name)) not in allowed
    }

    assert undeclared == set()


def _third_party_imports(path: Path) -> set[str]:
    tops: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            tops |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            tops.add(node.module.partition(".")[0])
    return {
        top for top in tops if top not in sys.stdlib_module_names and not top.startswith(("kvtune_", "__"))
    }
