"""The Containerfiles, without a container engine: each COPY and RUN in a virtual environment of its own.

What a base image would add is only Python, so that this proves all but the base. Packages come from the index
that pip is set to, by hash.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.kubelet_standin.images import CONTAINERFILES, ROOT, entrypoint, instructions

RUN_SECONDS = 600
CONTROL_ONLY = ("kopf", "kubernetes", "optuna", "kvtune_tuner", "kvtune_operator", "typer", "numpy")


@dataclass(frozen=True, slots=True)
class Image:
    """A root folder in which a Containerfile was followed, and the environment of its commands."""

    folder: Path
    environment: dict[str, str]

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command as a container of the image would, from an empty folder."""
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
        )


def build(containerfile: Path, folder: Path) -> Image:
    """Follow a Containerfile; WORKDIR is a folder, and RUN finds the environment's Python first.

    Nothing is compiled ahead, which takes most of the time and changes nothing of what is tested.
    """
    venv, workdir, nowhere = folder / "venv", folder / "workdir", folder / "nowhere"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=RUN_SECONDS)
    nowhere.mkdir()
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    environment = {**kept, "PATH": f"{venv / 'bin'}:{os.environ['PATH']}", "PIP_NO_COMPILE": "1"}
    for name, rest in instructions(containerfile):
        match name:
            case "WORKDIR":
                workdir.mkdir()
            case "COPY":
                *sources, target = rest.split()
                for source in sources:
                    _copy(ROOT / source, workdir / target, into=target.endswith("/"))
            case "RUN":
                done = subprocess.run(
                    ["sh", "-c", rest], cwd=workdir, env=environment, capture_output=True, text=True
                )
                assert done.returncode == 0, f"{rest}: {done.stdout[-2000:]} {done.stderr[-2000:]}"
            case "ENV":
                environment |= dict(part.split("=", 1) for part in rest.split())
            case "FROM" | "USER" | "EXPOSE" | "ENTRYPOINT":
                pass
            case _:
                raise AssertionError(f"{containerfile}: nobody has tried {name}")
    return Image(nowhere, environment)


def _copy(source: Path, target: Path, *, into: bool) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        return
    place = target / source.name if into else target
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, place)


@pytest.mark.timeout(RUN_SECONDS)
def test_the_agents_image_starts_and_holds_nothing_of_the_control_plane(tmp_path: Path) -> None:
    file = CONTAINERFILES["kvtune-agent"]
    image = build(file, tmp_path)

    done = image.run(*entrypoint(file), "--help")
    assert done.returncode == 0, done.stderr
    assert "--state-dir" in done.stdout

    code = "import importlib.util as u, json; print(json.dumps([n for n in %r if u.find_spec(n)]))"
    done = image.run("python", "-c", code % (CONTROL_ONLY,))
    assert json.loads(done.stdout) == [], done.stderr


@pytest.mark.timeout(RUN_SECONDS)
def test_the_operators_image_starts_and_has_the_kvtune_command(tmp_path: Path) -> None:
    file = CONTAINERFILES["kvtune-operator"]
    image = build(file, tmp_path)

    for command in ([*entrypoint(file), "--help"], ["kvtune", "traffic", "--help"], ["kvtune", "--version"]):
        done = image.run(*command)
        assert done.returncode == 0, f"{command}: {done.stderr}"


@pytest.mark.parametrize("file", CONTAINERFILES.values(), ids=CONTAINERFILES.keys())
def test_an_image_is_not_root_and_takes_every_package_by_hash(file: Path) -> None:
    found = instructions(file)
    names = [name for name, _ in found]

    assert names[0] == "FROM"
    assert [rest for name, rest in found if name == "USER"] == ["65532:65532"]
    assert names.index("USER") > max(i for i, name in enumerate(names) if name == "RUN")
    for rest in (rest for name, rest in found if name == "RUN"):
        assert "--require-hashes" in rest or "--no-index" in rest
    assert ":latest" not in dict(found)["FROM"]


def test_the_agents_lock_agrees_with_that_of_the_rest() -> None:
    def pins(lock: str) -> set[str]:
        text = (ROOT / "requirements" / lock).read_text(encoding="utf-8")
        return {line.rstrip(" \\") for line in text.splitlines() if line[:1].isalpha()}

    assert pins("agent.txt") <= pins("run.txt")
