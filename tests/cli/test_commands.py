"""The kvtune command: what each subcommand prints, and with which code it ends."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from kvtune_api.evidence import Evidence
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.names import Outcome, OutcomeReason, Phase
from kvtune_api.status import Met, PolicyStatus, Sli, Trial
from kvtune_cli.exits import MEANINGS, ExitCode, exit_code
from kvtune_cli.main import run
from kvtune_operator.adapters.event_files import FileEvents
from kvtune_operator.adapters.files import FileObjects
from kvtune_operator.statedir import Locked, StateDir
from kvtune_operator.storage import write
from kvtune_tuner.model import Verb
from tests.fakes.clock import ORIGIN
from tests.fakes.samples import cache_config, experiment, policy

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
COMMANDS = ("up", "agent", "validate", "status", "abort", "pause", "resume", "approve", "replay", "token")
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


@pytest.fixture
def held(state: StateDir) -> Iterator[FileObjects]:
    """A state directory that a control plane (this process) holds, with a policy and an experiment."""
    objects = FileObjects(state)
    stored = asyncio.run(objects.apply_policy(policy()))
    begun = experiment()
    record = replace(begun.status, estimated_end=1500.0, power=0.83)
    asyncio.run(objects.put_experiment(replace(begun, status=record)))
    status = PolicyStatus(
        phase=Phase.MEASURING,
        waiting_for="epoch 1 of block 3 ends in 85 s",
        agents=6,
        agents_ready=6,
        experiment="chat-1",
        incumbent=cache_config(),
        slis=(
            Sli(name="ttft", value=0.55, target=0.9, met=Met.VIOLATED),
            Sli(name="hitRate", reason="NoTraffic", met=Met.UNKNOWN),
        ),
        trials=(
            Trial(
                experiment="chat-0",
                number=0,
                candidate=cache_config(ttl=60),
                incumbent=cache_config(),
                strategy="Ladder",
                outcome=Outcome.REJECTED,
                reason=OutcomeReason.HARM_OBJECTIVE,
                ended_at=ORIGIN,
                deltas=9,
                effect=-0.05,
            ),
        ),
    )
    asyncio.run(objects.put_policy_status(stored, status))
    yield objects
    objects.close()


def kvtune(*args: object) -> int:
    return run([str(arg) for arg in args])


def waiting(objects: FileObjects) -> list[tuple[Verb, str]]:
    return [(command.verb, command.target) for command in asyncio.run(objects.commands("chat"))]


def as_json(capsys: Capture) -> Any:
    out = capsys.readouterr().out
    assert "NaN" not in out
    return json.loads(out)


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


def test_the_status_says_what_happens_and_why_it_waits(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    assert kvtune("status", "--state-dir", state.path) == ExitCode.OK

    text = " ".join(capsys.readouterr().out.split())
    for part in (
        "policy chat: Measuring",
        "waits for: epoch 1 of block 3 ends in 85 s",
        "agents ready 6 of 6",
        "NoTraffic",
        "experiment chat-1 (Ladder)",
        "Rejected(HarmObjective)",
        "-0.050",
        "control plane: pid",
        "(times are of the policy's clock)",
        "estimated end 00:25:00, power 0.83",
        "evidence after 0 Deltas: effect -, e-value - of 20",
        "waits for minPairs: nothing is promoted before 8 Deltas",
        "hitRate NoTraffic - - ",
    ):
        assert part in text


def test_a_status_for_a_pipe_has_no_wrapped_and_no_padded_lines(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    stored = asyncio.run(held.policy("chat"))
    assert stored is not None and stored.status is not None
    waits = "a long reason " * 30
    asyncio.run(held.put_policy_status(stored, replace(stored.status, waiting_for=waits)))

    kvtune("status", "--state-dir", state.path)

    lines = capsys.readouterr().out.splitlines()
    assert f"  waits for: {waits.rstrip()}" in lines
    assert [line for line in lines if line != line.rstrip()] == []
    assert max(len(line) for line in lines if "long reason" not in line) < 160


def test_from_min_pairs_on_nothing_waits_for_them(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    change(held, evidence=Evidence(deltas=8, effect=0.2, e_value=48.3, threshold=20.0))

    kvtune("status", "--state-dir", state.path)

    told = capsys.readouterr().out
    assert "e-value 48.3 of 20" in told
    assert "minPairs" not in told


def test_without_a_control_plane_the_status_is_the_last_one(state: StateDir, capsys: Capture) -> None:
    objects = FileObjects(state)
    asyncio.run(objects.apply_policy(policy()))
    objects.close()

    assert kvtune("status", "--state-dir", state.path) == ExitCode.OK
    assert capsys.readouterr().out.startswith("no control plane is running: this is the last state")


def test_the_status_as_json(held: FileObjects, state: StateDir, capsys: Capture) -> None:
    events = FileEvents(state.events)
    asyncio.run(events.record(policy(), [], ORIGIN))

    assert kvtune("status", "--state-dir", state.path, "--json") == ExitCode.OK

    told = as_json(capsys)
    assert told["policies"][0]["status"]["phase"] == "Measuring"
    assert told["experiments"][0]["metadata"]["name"] == "chat-1"
    assert told["controlPlane"].startswith("pid ")


def test_the_status_of_a_directory_without_a_policy(state: StateDir, capsys: Capture) -> None:
    assert kvtune("status", "--state-dir", state.path) == ExitCode.UNAVAILABLE
    assert "holds no policy (give the --state-dir of `kvtune up`" in capsys.readouterr().err


def test_a_status_without_a_policy_names_the_runs_of_the_demo(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for run_name in ("run-1", "run-2", "run-3"):
        (tmp_path / ".kvtune" / "demo" / run_name / "state" / "policies").mkdir(parents=True)

    assert kvtune("status") == ExitCode.UNAVAILABLE
    told = capsys.readouterr().err
    assert "--state-dir .kvtune/demo/run-3/state; of the demo: --state-dir .kvtune/demo/run-2/state" in told
    assert "run-1" not in told


def test_the_status_of_a_damaged_directory_names_the_line(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    state.experiment_file("chat-1").write_text('{\n"metadata": 1,\n}')

    assert kvtune("status", "--state-dir", state.path) == ExitCode.CORRUPT
    assert "chat-1.json line 3: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "target"), [("abort", "chat-1"), ("abort", ""), ("pause", ""), ("resume", "")]
)
def test_a_wish_is_left_for_the_running_control_plane(
    held: FileObjects, state: StateDir, capsys: Capture, verb: str, target: str
) -> None:
    assert kvtune(verb, *([target] if target else []), "--state-dir", state.path) == ExitCode.OK

    assert waiting(held) == [(Verb(verb), target)]
    told = capsys.readouterr().out
    assert told.startswith("asked the control plane (pid ")
    assert "at its next step" in told


def test_a_wish_as_json(held: FileObjects, state: StateDir, capsys: Capture) -> None:
    assert kvtune("pause", "--state-dir", state.path, "--json") == ExitCode.OK

    told = as_json(capsys)
    assert told["verb"] == "pause"
    assert Path(told["file"]).exists()


@pytest.mark.parametrize(
    "command", [("abort",), ("abort", "chat-1"), ("pause",), ("resume",), ("approve", "chat-1")]
)
def test_without_a_control_plane_a_wish_is_refused(
    state: StateDir, capsys: Capture, command: tuple[str, ...]
) -> None:
    assert kvtune(*command, "--state-dir", state.path) == ExitCode.UNAVAILABLE
    assert "no control plane runs on this directory" in capsys.readouterr().err


def test_an_unknown_experiment_is_refused_with_the_known_ones(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    assert kvtune("abort", "chat-9", "--state-dir", state.path) == ExitCode.USAGE

    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "chat-9: there is no such experiment (newest: chat-1)" in told
    assert waiting(held) == []


def test_an_experiment_that_has_ended_cannot_be_aborted(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    end(state, held)

    assert kvtune("abort", "chat-1", "--state-dir", state.path) == ExitCode.USAGE
    assert "has ended: Promoted(Superior)" in " ".join(capsys.readouterr().err.split())


def test_an_experiment_that_does_not_wait_cannot_be_approved(
    held: FileObjects, state: StateDir, capsys: Capture
) -> None:
    assert kvtune("approve", "chat-1", "--state-dir", state.path) == ExitCode.USAGE
    assert "chat-1 is Measuring" in " ".join(capsys.readouterr().err.split())


def test_an_experiment_that_waits_is_approved(held: FileObjects, state: StateDir, capsys: Capture) -> None:
    change(held, phase=Phase.AWAITING_APPROVAL)

    assert kvtune("approve", "chat-1", "--state-dir", state.path) == ExitCode.OK
    assert waiting(held) == [(Verb.APPROVE, "chat-1")]


def change(objects: FileObjects, **status: Any) -> KVCacheExperiment:
    read = asyncio.run(objects.experiment("chat-1"))
    assert read is not None
    return asyncio.run(objects.put_experiment(replace(read, status=replace(read.status, **status))))


def end(state: StateDir, objects: FileObjects) -> None:
    change(objects, outcome=Outcome.PROMOTED, reason=OutcomeReason.SUPERIOR)


def fresh() -> KVCacheExperiment:
    """An experiment before its first decision: nothing to differ from."""
    sample = experiment(rows=0)
    return replace(sample, status=replace(sample.status, decisions=()))


def test_a_replay_that_agrees_says_so(tmp_path: Path, capsys: Capture) -> None:
    ledger = tmp_path / "chat-1.json"
    write(ledger, fresh())

    assert kvtune("replay", ledger) == ExitCode.OK
    assert capsys.readouterr().out.splitlines()[-1] == "0 verdicts equal"


def test_a_replay_of_a_verdict_that_its_rows_deny_exits_with_1(tmp_path: Path, capsys: Capture) -> None:
    ledger = tmp_path / "chat-1.json"
    sample = experiment(rows=2)
    write(ledger, replace(sample, status=replace(sample.status, noise_objective=0.01)))

    assert kvtune("replay", ledger) == ExitCode.DIFFERENT
    assert "chat-1: " in capsys.readouterr().out
    assert kvtune("replay", ledger, "--json") == ExitCode.DIFFERENT
    told = as_json(capsys)
    assert told["equal"] is False
    assert told["experiments"][0]["differences"]


def test_a_replay_of_a_state_directory(held: FileObjects, state: StateDir, capsys: Capture) -> None:
    kvtune("replay", state.path, "--json")

    assert [item["experiment"] for item in as_json(capsys)["experiments"]] == ["chat-1"]


def test_a_replay_of_a_damaged_ledger_names_the_line(tmp_path: Path, capsys: Capture) -> None:
    ledger = tmp_path / "chat-1.json"
    write(ledger, experiment())
    text = ledger.read_text().splitlines()
    number = next(index for index, line in enumerate(text, 1) if '"coin"' in line)
    text[number - 1] = text[number - 1].replace('"coin": true', '"coin": maybe')
    ledger.write_text("\n".join(text))

    assert kvtune("replay", ledger) == ExitCode.CORRUPT
    assert f"{ledger} line {number}" in capsys.readouterr().err.replace(
        f"line {number + 1}", f"line {number}"
    )


@pytest.mark.parametrize("content", ["none", "folder"])
def test_a_replay_of_what_is_no_ledger_is_a_usage_error(
    tmp_path: Path, capsys: Capture, content: str
) -> None:
    path = tmp_path / content
    if content == "folder":
        path.mkdir()

    assert kvtune("replay", path) == ExitCode.USAGE


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
