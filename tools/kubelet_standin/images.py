"""Find what an image would run: the ENTRYPOINT of this checkout's Containerfile of that name.

The same Containerfiles build the images, so that what runs here and what runs there cannot drift.
"""

import json
import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONTAINERFILES = {
    "kvtune-agent": ROOT / "agent" / "Containerfile",
    "kvtune-operator": ROOT / "operator" / "Containerfile",
}


class NoImage(Exception):
    """No image of this name is known, and the container has no command of its own."""


def instructions(containerfile: Path) -> list[tuple[str, str]]:
    """The instructions of a Containerfile in order, in capitals, with what follows them on one line."""
    text = re.sub(r"^\s*#.*\n", "", containerfile.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = [line.strip() for line in text.replace("\\\n", " ").splitlines()]
    parts = [line.split(None, 1) for line in lines if line]
    return [(first.upper(), " ".join(rest.split())) for first, rest in parts]


def entrypoint(containerfile: Path) -> list[str]:
    """The command of the last ENTRYPOINT, in exec or in shell form."""
    found = [rest for name, rest in instructions(containerfile) if name == "ENTRYPOINT"]
    if not found:
        return []
    return list(json.loads(found[-1])) if found[-1].startswith("[") else shlex.split(found[-1])


def command_of(image: str, command: list[str], args: list[str]) -> list[str]:
    """What a container runs: its command, or else the image's, and its arguments. Raises `NoImage`."""
    if command:
        return [*command, *args]
    name = re.split("[:@]", image.rpartition("/")[2])[0]
    containerfile = CONTAINERFILES.get(name)
    if containerfile is None:
        raise NoImage(f"image {image!r}: only {', '.join(sorted(CONTAINERFILES))} can run without a command")
    return [*entrypoint(containerfile), *args]
