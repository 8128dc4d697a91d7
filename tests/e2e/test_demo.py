"""`kvtune demo` as a user types it: it ends by itself, its ledger replays, and faults leave all at home."""

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvtune_agent.incumbent import FILE_NAME
from kvtune_cli.demo.options import DemoOptions
from tests.e2e.policies import quick, write_policy
from tests.e2e.processes import KVTUNE, Running, kvtune, processes_with, until

WIDER = {
    "cacheTTL": {"min": "20s", "max": "60s", "start": "60s", "largestStep": 2},
    "tiers": {"hostMemory": {"min": "14Gi", "max": "228Gi", "start": "114Gi", "largestStep": 4}},
}


class Demo:
    """One run of the demo and what it left."""

    def __init__(self, folder: Path, document: dict[str, Any], *args: object) -> None:
        self.folder = folder
        policy = write_policy(folder / "policy.yaml", document)
        self.json_file = folder / "out.json"
        self.running = Running(
            folder,
            "demo",
            KVTUNE,
            "demo",
            *("--plain", "--agents", 4, "-f", policy, "--json", self.json_file, "--dir", folder / "runs"),
            *args,
        )

    @property
    def run(self) -> Path:
        """The folder of the run."""
        (found,) = (self.folder / "runs").iterdir()
        return found

    @property
    def result(self) -> Any:
        """What --json wrote; a NaN in it is refused."""
        return json.loads(self.json_file.read_text(), parse_constant=pytest.fail)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A demo without the last act, at its end."""
    demo = Demo(
        tmp_path_factory.mktemp("demo"), quick(), "--speed", 80, "--rate", 2, "--no-last-act", "--seed", 3
    )
    try:
        assert demo.running.code() == 0, demo.running.err
        yield demo
    finally:
        demo.running.clean_up()


def test_it_ends_by_itself_and_writes_everything_down(finished: Demo) -> None:
    result = finished.result

    assert result["start"] == {"cacheTTL": "20s", "evictionRatio": 0.1, "tiers": {"hostMemory": "14Gi"}}
    assert result["experiments"], "at least one was started"
    for experiment in result["experiments"]:
        assert experiment["outcome"] and experiment["reason"] and experiment["message"]
    promoted = [e["candidate"] for e in result["experiments"] if e["outcome"] == "Promoted"]
    assert result["promoted"] == (promoted[-1] if promoted else None)
    for when in ("before", "after"):
        assert result[when]["objective"] is not None
        assert 0 <= result[when]["hitRate"] <= 1
        assert 0 <= result[when]["withinLimit"] <= 1
        assert result[when]["requests"] > 0
    assert result["bestStatic"] is None
    assert result["lastAct"] is None
    assert result["restored"] is True
    assert result["replay"]["differences"] == []
    assert result["scaledSeconds"] <= DemoOptions(directory=finished.folder).scaled_seconds


def test_it_ends_with_a_table_of_all_that_happened(finished: Demo) -> None:
    table = finished.running.out
    for experiment in finished.result["experiments"]:
        assert experiment["name"] in table
        assert f"{experiment['outcome']}({experiment['reason']})" in table
    assert "not computed (--with-grid computes it)" in table
    assert f"ledger: {finished.run / 'state'}" in table
    assert f"kvtune replay: {finished.result['replay']['verdicts']} verdicts equal" in table
    assert ("No candidate was proven better" in table) == (finished.result["promoted"] is None)


def test_it_leaves_no_process_behind(finished: Demo) -> None:
    assert processes_with(str(finished.folder)) == []


def test_its_ledger_replays_to_the_same_verdicts(finished: Demo) -> None:
    done = kvtune("replay", finished.run / "state")

    verdicts = finished.result["replay"]["verdicts"]
    assert verdicts > 0
    assert (done.returncode, done.stdout) == (0, f"{verdicts} verdicts equal\n")


@pytest.fixture
def ledger(finished: Demo, tmp_path: Path) -> Path:
    """A copy of a ledger with at least one verdict."""
    for path in sorted((finished.run / "state" / "experiments").glob("*.json")):
        if json.loads(path.read_text())["status"].get("decisions"):
            return Path(shutil.copy(path, tmp_path))
    raise AssertionError("no experiment of the demo came to a verdict")


def test_a_changed_counter_in_one_row_is_found(ledger: Path) -> None:
    data = json.loads(ledger.read_text())
    row = next(row for row in data["status"]["rows"] if row["block"] >= 1 and row.get("candidate"))
    row["candidate"]["hitTokens"] *= 0.5
    ledger.write_text(json.dumps(data))

    done = kvtune("replay", ledger)

    assert done.returncode == 1
    assert f"block {row['block']}" in done.stdout
    assert "superior" in done.stdout, "the test that differs is named"
    assert "differences among" in done.stdout


@pytest.mark.parametrize("damage", ["torn", "overwritten", "no number"])
def test_a_damaged_ledger_is_refused_with_its_line(ledger: Path, damage: str) -> None:
    lines = ledger.read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if '"coin"' in line)
    match damage:
        case "torn":
            text, line = "".join([*lines[:at], lines[at][:40]]), at + 1
        case "overwritten":
            text, line = "".join([*lines[:at], "\0" * 30 + "\n", *lines[at + 1 :]]), at + 1
        case _:
            changed = lines[at].replace('"block": ', '"block": "x', 1).replace(",", '",', 1)
            text, line = "".join([*lines[:at], changed, *lines[at + 1 :]]), at + 1
    ledger.write_text(text)

    done = kvtune("replay", ledger)

    assert done.returncode == 6
    assert f"{ledger} line {line}: " in done.stderr


def test_ctrl_c_restores_every_agent_and_says_so(tmp_path: Path) -> None:
    demo = Demo(tmp_path, quick(), "--speed", 80, "--rate", 2, "--no-last-act")
    try:
        demo.running.until_said("  Washout: ")
        demo.running.send(signal.SIGINT)

        assert demo.running.code() == 130

        assert "interrupted: agents return to their incumbents first" in demo.running.err
        assert "\nevery agent runs its incumbent" in demo.running.err
        assert processes_with(str(tmp_path)) == []
        for number in range(1, 5):
            kept = demo.run / f"agent-{number}" / FILE_NAME
            if kept.exists():  # an agent that was never a candidate has never been told anything
                assert json.loads(kept.read_text())["incumbent"]["cacheTTL"] == "20s"
        (ledger,) = (demo.run / "state" / "experiments").glob("*.json")
        status = json.loads(ledger.read_text())["status"]
        assert (status["outcome"], status["reason"]) == ("Aborted", "Shutdown")
        assert status["endedAt"], "written once every agent has confirmed its incumbent"
        assert kvtune("replay", demo.run / "state").returncode == 0
    finally:
        demo.running.clean_up()


def test_a_second_ctrl_c_stops_at_once_and_leaves_no_process(tmp_path: Path) -> None:
    demo = Demo(tmp_path, quick(), "--speed", 80, "--rate", 2, "--no-last-act")
    try:
        demo.running.until_said("feeding")
        demo.running.send(signal.SIGINT)
        demo.running.until_said("interrupted: agents return")
        demo.running.send(signal.SIGINT)

        assert demo.running.code() == 130
        assert "second signal: stopping at once" in demo.running.err
        until(lambda: not processes_with(str(tmp_path)), "no process is left")
    finally:
        demo.running.clean_up()


def test_the_last_act_shows_the_breaker_and_every_agent_coming_home(tmp_path: Path) -> None:
    document = quick(
        knobs=WIDER, experiment={"minEffect": 0.3, "maxPairs": 6, "washout": {"min": "20s", "max": "60s"}}
    )
    demo = Demo(tmp_path, document, "--speed", 60)
    try:
        assert demo.running.code() == 0, demo.running.err

        act, told = demo.result["lastAct"], demo.running.out
        assert act["badCandidate"]["tiers"]["hostMemory"].startswith("29")
        assert act["outcome"] == "RolledBack(Breaker)", told
        assert act["breakerScaledSeconds"] > 0
        assert act["killedWithCandidates"] > 0, told
        assert act["homeAfterWallSeconds"] is not None
        assert demo.result["restored"] is True
        assert "every agent is back on its incumbent by itself" in told
        assert processes_with(str(tmp_path)) == []
        assert kvtune("replay", demo.run / "state").returncode == 0
    finally:
        demo.running.clean_up()
