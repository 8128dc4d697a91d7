"""The documents that people follow: commands parse, files, headings and tests that they name exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperCommand, TyperGroup

from kvtune_agent.apply import Stale
from kvtune_agent.bodies import Refuse
from kvtune_api.ledger import RING_ROWS
from kvtune_api.names import ConditionType, Outcome, OutcomeReason, Reason
from kvtune_api.status import TRIALS_KEPT
from kvtune_cli.exits import ExitCode
from kvtune_cli.main import build
from kvtune_operator.reconcile import SHUTDOWN_TICKS
from kvtune_tuner.epochs import THIN_TRAFFIC_FACTOR
from kvtune_tuner.limits import BreakerLimits
from kvtune_tuner.sli import MissingReason

ROOT = Path(__file__).resolve().parents[1]
ALL = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BY_OTHERS = frozenset({"policy.md", "benchmarks.md", "cases.md"})
"""Generated, or with checks of their own."""

OURS = [path for path in ALL if path.name not in BY_OTHERS]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROOMS = "api|cache|tuner|operator|agent|lab|cli|tests|tools|docs|crds|examples|requirements"
NAMED_PATH = re.compile(rf"(?<![\w./-])(?:{ROOMS})/[\w./-]*\w|(?<=`)(?:{ROOMS})/(?=`)")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def shell_commands(text: str) -> Iterator[list[str]]:
    """Arguments of every `kvtune` in a block marked sh, variables filled in."""
    for language, block in FENCE.findall(text):
        if language != "sh":
            continue
        for written in block.replace("\\\n", " ").splitlines():
            words = shlex.split(re.sub(r"\$\(.*?\)|\$\w+", "1", written), comments=True)
            words = [word for word in words if word != "&" and not re.match(r"\d?>", word)]
            if words and Path(words[0]).name == "kvtune":
                yield words[1:]


def inline_commands(text: str) -> Iterator[list[str]]:
    """Words after `kvtune` in code between backticks; placeholders and choices are left as written."""
    for code in re.findall(r"`(kvtune [^`]+)`", FENCE.sub("", text)):
        yield code.split()[1:]


@pytest.fixture(scope="module")
def commands() -> dict[str, TyperCommand]:
    group = typer.main.get_command(build())
    assert isinstance(group, TyperGroup)
    return dict(leaves(group))


def leaves(group: TyperGroup) -> Iterator[tuple[str, TyperCommand]]:
    """Every command by its words: `status`, `trace stats`."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from ((f"{name} {rest}", leaf) for rest, leaf in leaves(command))
        elif isinstance(command, TyperCommand):
            yield name, command


def whole(words: list[str], commands: dict[str, TyperCommand]) -> tuple[str, list[str]]:
    """A command, of one word or two, and what follows it."""
    two = " ".join(words[:2])
    return (two, words[2:]) if two in commands else (words[0], words[1:])


@pytest.mark.parametrize("path", ALL, ids=named)
def test_every_command_to_type_parses(path: Path, commands: dict[str, TyperCommand]) -> None:
    for words in shell_commands(path.read_text()):
        name, arguments = whole(words, commands)
        with commands[name].make_context(name, arguments):
            pass


def test_commands_are_found_in_the_readme() -> None:
    found = {name for name, *_ in shell_commands((ROOT / "README.md").read_text())}

    assert found >= {
        "token",
        "agent",
        "validate",
        "up",
        "status",
        "try",
        "abort",
        "pause",
        "resume",
        "replay",
    }


@pytest.mark.parametrize("path", ALL, ids=named)
def test_every_command_that_is_mentioned_has_the_options_that_are_mentioned(
    path: Path, commands: dict[str, TyperCommand]
) -> None:
    for words in inline_commands(path.read_text()):
        name, arguments = whole(words, commands)
        if name.startswith("-") or name.isupper():
            continue
        for one in [name] if name in commands else name.split("|"):
            known = {option for parameter in commands[one].params for option in parameter.opts} | {"--help"}
            used = {word.split("=")[0] for word in arguments if word.startswith("-")}
            assert used <= known, f"kvtune {one}"


@pytest.mark.parametrize("path", OURS, ids=named)
def test_every_file_that_is_mentioned_exists(path: Path) -> None:
    mentioned = set(NAMED_PATH.findall(path.read_text()))

    assert {name for name in mentioned if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("path", OURS, ids=named)
def test_every_link_leads_to_a_file_and_a_heading(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def anchors(path: Path) -> set[str]:
    """Headings as links name them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", OURS, ids=named)
def test_every_test_that_is_mentioned_exists(path: Path) -> None:
    mentioned = set(re.findall(r"`(test_[a-z0-9_]+)`", path.read_text()))
    defined = {
        name
        for file in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"def (test_[a-z0-9_]+)", file.read_text())
    }

    assert mentioned - defined == set()


def test_the_ten_lines_of_the_readme_are_the_minimal_policy() -> None:
    import yaml

    blocks = [
        block for language, block in FENCE.findall((ROOT / "README.md").read_text()) if language == "yaml"
    ]
    minimal = yaml.safe_load((ROOT / "examples/minimal.yaml").read_text())

    assert [yaml.safe_load(block) for block in blocks] == [minimal]


def test_numbers_that_the_documents_repeat_are_those_of_the_code() -> None:
    architecture = (ROOT / "docs/architecture.md").read_text()
    experiments = (ROOT / "docs/experiments.md").read_text()
    limits = BreakerLimits()

    assert f"At most {RING_ROWS} rows" in architecture and f"more than {RING_ROWS} rows" in experiments
    assert f"trials (<= {TRIALS_KEPT})" in architecture and f"most\n{SHUTDOWN_TICKS} ticks" in architecture
    assert f"window {THIN_TRAFFIC_FACTOR} times as" in experiments
    assert f"last {limits.long_s:g} s and over the last {limits.short_s:g} s" in experiments
    assert f"more than {limits.over_control * 100:g} points above the control arm" in experiments


@pytest.mark.parametrize("kind", [ConditionType, Reason, MissingReason, Refuse, Stale])
def test_troubleshooting_says_something_about_every_reason(kind: type[ConditionType]) -> None:
    text = (ROOT / "docs/troubleshooting.md").read_text()

    assert [str(reason) for reason in kind if not re.search(rf"\b{reason}\b", text)] == []


def test_troubleshooting_says_something_about_every_exit_code() -> None:
    text = (ROOT / "docs/troubleshooting.md").read_text()

    assert [code for code in ExitCode if f"\n| {code.value} | " not in text] == []


@pytest.mark.parametrize("kind", [Outcome, OutcomeReason])
def test_the_page_on_experiments_says_something_about_every_outcome(kind: type[Outcome]) -> None:
    text = (ROOT / "docs/experiments.md").read_text()

    assert [str(word) for word in kind if f"| {word} |" not in text] == []
