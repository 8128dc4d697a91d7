"""The kvtune command: help, exit codes, policies, tokens, and what it says of its own bugs."""

from pathlib import Path

import pytest
import typer

from kvtune_cli.exits import MEANINGS, ExitCode, exit_code
from kvtune_cli.main import run
from kvtune_operator.statedir import Locked
from tests.cli.command_line import EXAMPLES, Capture, as_json, kvtune


def test_every_command_has_help_with_an_example(capsys: Capture) -> None:
    assert kvtune("--help") == ExitCode.OK
    listed = capsys.readouterr().out
    for name in (
        "up",
        "agent",
        "validate",
        "status",
        "abort",
        "pause",
        "resume",
        "approve",
        "replay",
        "operator",
        "traffic",
        "version",
    ):
        assert name in listed
        assert kvtune(name, "--help") == ExitCode.OK
        text = capsys.readouterr().out
        assert "Example: kvtune " in " ".join(text.split())


def test_the_help_lists_every_exit_code(capsys: Capture) -> None:
    kvtune("--help")
    text = capsys.readouterr().out

    assert set(MEANINGS) == set(ExitCode)
    for code, meaning in MEANINGS.items():
        assert f"{code.value}  {meaning}" in text


def test_exit_codes_differ() -> None:
    assert len({code.value for code in ExitCode}) == len(ExitCode)
    assert exit_code(Locked("held")) is ExitCode.LOCKED


def test_an_unknown_command_is_a_usage_error(capsys: Capture) -> None:
    assert kvtune("frobnicate") == ExitCode.USAGE
    assert "frobnicate" in capsys.readouterr().err


def test_a_valid_policy(capsys: Capture) -> None:
    assert kvtune("validate", "-f", EXAMPLES / "chat.yaml") == ExitCode.OK
    assert capsys.readouterr().out == f"{EXAMPLES / 'chat.yaml'}: valid\n"


def test_an_invalid_policy_is_told_in_one_line_for_each_problem(capsys: Capture) -> None:
    assert kvtune("validate", "-f", EXAMPLES / "invalid.yaml") == ExitCode.INVALID

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{EXAMPLES / 'invalid.yaml'}: 10 problems"
    assert len(lines) == 11
    assert "  line 9: spec.targets.ttft.quantile: 1.5: input should be less than 1" in lines


def test_addresses_are_for_a_standalone_control_plane_alone(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    selector = 'spec:\n  selector: {addresses: ["http://127.0.0.1:9000"]}\n'
    path.write_text((EXAMPLES / "chat.yaml").read_text().replace("spec:\n", selector, 1))

    assert kvtune("validate", "-f", path) == ExitCode.INVALID
    assert "spec.selector: addresses: 1 set: not in a cluster" in capsys.readouterr().out
    assert kvtune("validate", "-f", path, "--standalone") == ExitCode.OK


def test_problems_and_warnings_as_json(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text((EXAMPLES / "chat.yaml").read_text().replace("limit: 250ms", "limit: 300ms"))

    assert kvtune("validate", "-f", path, "--json") == ExitCode.OK
    assert as_json(capsys)["warnings"][0]["path"] == "spec.targets.ttft.limit"
    assert kvtune("validate", "-f", EXAMPLES / "invalid.yaml", "--json") == ExitCode.INVALID
    told = as_json(capsys)
    assert told["valid"] is False
    assert told["problems"][1] == {
        "path": "spec.targets.ttft.quantile",
        "line": 9,
        "message": "1.5: input should be less than 1",
    }


def test_a_policy_file_that_is_not_there(capsys: Capture) -> None:
    for command in ("validate", "up", "demo"):
        assert kvtune(command, "-f", "none.yaml") == ExitCode.UNAVAILABLE
        assert capsys.readouterr().err == "kvtune: none.yaml: No such file or directory\n"


def test_the_version_as_text_and_json(capsys: Capture) -> None:
    assert kvtune("version") == ExitCode.OK
    told = capsys.readouterr().out
    assert told.startswith("kvtune ")
    assert kvtune("--version") == ExitCode.OK
    assert capsys.readouterr().out == told
    assert kvtune("version", "--json") == ExitCode.OK
    assert as_json(capsys)["api"] == "kvtune.dev/v1alpha1"


def test_a_token_file_is_made_once_and_only_its_owner_reads_it(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "new" / "token"

    assert kvtune("token", "--file", path) == ExitCode.OK
    assert path.stat().st_mode & 0o777 == 0o600
    secret = path.read_text()
    assert len(secret.strip()) >= 32
    assert secret.strip() not in capsys.readouterr().out
    assert kvtune("token", "--file", path) == ExitCode.USAGE
    assert capsys.readouterr().err == f"kvtune: {path}: exists already and is kept\n"
    assert path.read_text() == secret


def test_up_without_a_token_file_says_how_to_make_one(tmp_path: Path, capsys: Capture) -> None:
    code = kvtune("up", "-f", EXAMPLES / "chat.yaml", "--state-dir", tmp_path)

    assert code == ExitCode.UNAVAILABLE
    assert f"kvtune token --file {tmp_path / 'token'}" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["up", "demo"])
def test_an_invalid_policy_is_named_with_every_problem(tmp_path: Path, capsys: Capture, command: str) -> None:
    folder = {"up": "--state-dir", "demo": "--dir"}[command]
    code = kvtune(command, "-f", EXAMPLES / "invalid.yaml", folder, tmp_path)

    assert code == ExitCode.INVALID
    first, *others = capsys.readouterr().err.splitlines()
    assert first == f"kvtune: {EXAMPLES / 'invalid.yaml'}: 10 problems"
    assert len(others) == 10


def test_up_with_wrong_settings_tells_every_problem(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "token").write_text("secret")
    code = kvtune(
        "up",
        "-f",
        EXAMPLES / "chat.yaml",
        "--state-dir",
        tmp_path,
        "--speed",
        "0",
        "--agents",
        "ftp://a,http://b:1",
    )

    assert code == ExitCode.INVALID
    told = capsys.readouterr().err
    assert "speed: 0 is not above 0" in told
    assert "agents[0]: 'ftp://a' is not an address" in told


def test_up_with_a_wrong_log_level(tmp_path: Path, capsys: Capture) -> None:
    assert kvtune("up", "-f", EXAMPLES / "chat.yaml", "--log-level", "loud") == ExitCode.USAGE


def broken() -> typer.Typer:
    """An application with a bug."""
    app = typer.Typer(pretty_exceptions_enable=False)

    @app.command()
    def crash() -> None:
        raise ZeroDivisionError("a\nb")

    return app


def test_a_bug_is_one_line_and_its_traceback_lies_in_a_file(capsys: Capture) -> None:
    code = run([], broken())

    told = capsys.readouterr().err
    assert code == ExitCode.BUG
    assert told.startswith("kvtune: this is a bug: ZeroDivisionError: a b (details in ")
    assert told.count("\n") == 1
    kept = Path(told.rstrip().rstrip(")").rpartition(" ")[2])
    assert "Traceback" in kept.read_text()
    kept.unlink()


def test_with_debug_the_traceback_is_shown(capsys: Capture) -> None:
    app = broken()
    app.callback()(lambda debug=False: None)

    assert run(["--debug", "crash"], app) == ExitCode.BUG
    assert "Traceback" in capsys.readouterr().err
