"""What a user does beside a running `kvtune up`: look, pause, try, abort, approve, edit, remove."""

import json
import signal
from typing import Any

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.names import Outcome, OutcomeReason, Phase
from tests.e2e.conftest import NewPlane
from tests.e2e.fleet import Fleet, Plane
from tests.e2e.policies import quick, write_policy
from tests.e2e.processes import kvtune, until


def test_pause_resume_try_and_abort(fleet: Fleet, new_plane: NewPlane) -> None:
    plane = new_plane()
    plane.start()
    first = plane.until_exposed()
    status = plane.status()
    assert status["controlPlane"].startswith(f"pid {plane.up.pid} on ")
    assert status["policies"][0]["status"]["experiment"] == first.metadata.name
    assert "nan" not in json.dumps(status).lower()

    ask(plane, "pause")
    assert ended_as(plane, first) == (Outcome.ABORTED, OutcomeReason.USER)
    until(lambda: phase(plane) == "Paused", "it is paused", plane.describe)
    assert fleet.at_home()

    ask(plane, "try", "--host-memory", "20Gi", "--cache-ttl", "30s")
    ask(plane, "resume")
    tried = plane.until(lambda e: e.metadata.name != first.metadata.name, "another experiment")
    assert (str(tried.spec.candidate.cache_ttl), str(tried.spec.candidate.tiers.host_memory)) == (
        "30s",
        "20Gi",
    )
    plane.until_exposed()
    ask(plane, "abort", tried.metadata.name)
    assert ended_as(plane, tried) == (Outcome.ABORTED, OutcomeReason.USER)
    assert plane.up.stop() == 0
    assert "stopped, incumbents are in force" in plane.up.err
    assert fleet.at_home()


def test_in_mode_recommend_a_winner_waits_for_approval(fleet: Fleet, new_plane: NewPlane) -> None:
    plane = new_plane(quick(mode="Recommend"))
    plane.start()
    winner = plane.until(lambda e: e.status.phase is Phase.AWAITING_APPROVAL, "a winner waits for approval")
    name = winner.metadata.name
    until(fleet.at_home, "a winner that waits runs nowhere")
    assert f"kvtune approve {name}" in plane.status()["policies"][0]["status"]["waitingFor"]

    ask(plane, "approve", name)

    ended = plane.until_ended(name)
    assert (ended.status.outcome, ended.status.approved) == (Outcome.PROMOTED, True)
    until(lambda: all_run(fleet, ended), "every agent runs the winner", plane.describe)
    assert plane.up.stop(signal.SIGINT) == 130
    assert kvtune("replay", plane.path).returncode == 0


def all_run(fleet: Fleet, ended: KVCacheExperiment) -> bool:
    """Whether the promoted candidate is every agent's incumbent."""
    wanted = ended.spec.candidate
    held = [report.running.incumbent for report in fleet.reports()]
    return all((one.cache_ttl, one.tiers) == (wanted.cache_ttl, wanted.tiers) for one in held)


def test_an_edit_supersedes_the_running_experiment(fleet: Fleet, new_plane: NewPlane) -> None:
    plane = new_plane()
    plane.start()
    running = plane.until_exposed()

    write_policy(plane.policy_file, quick(experiment={"maxPairs": 10}))

    assert ended_as(plane, running) == (Outcome.ABORTED, OutcomeReason.SUPERSEDED)
    later = plane.until(lambda e: e.spec.number > running.spec.number, "another experiment")
    assert later.spec.policy_spec.experiment.max_pairs == 10
    assert later.status.started_at >= restored_at(plane, running)


def restored_at(plane: Plane, before: KVCacheExperiment) -> float:
    """When an experiment had restored its incumbents (it is written down only then)."""
    stored = next(e for e in plane.experiments() if e.metadata.name == before.metadata.name)
    assert stored.status.ended_at is not None
    return stored.status.ended_at.timestamp()


def test_a_removed_policy_file_ends_everything_and_up_says_why(fleet: Fleet, new_plane: NewPlane) -> None:
    plane = new_plane()
    plane.start()
    running = plane.until_exposed()
    kept = plane.policy_file.rename(plane.folder / "kept.yaml")

    assert plane.up.code() == 0

    assert f"{plane.policy_file} was removed" in plane.up.err
    assert "policy quick was removed: all agents keep their incumbents" in plane.up.err
    ended = next(e for e in plane.experiments() if e.metadata.name == running.metadata.name)
    assert (ended.status.outcome, ended.status.reason) == (Outcome.ABORTED, OutcomeReason.SUPERSEDED)
    assert ended.status.message == "the policy was removed"
    assert fleet.at_home()

    kept.rename(plane.policy_file)
    plane.start()
    plane.until(lambda e: e.spec.number > running.spec.number, "another experiment after the file is back")


def ask(plane: Plane, verb: str, *args: object) -> None:
    """Type a command beside the running control plane."""
    done = kvtune(verb, *args, "--state-dir", plane.path)
    assert done.returncode == 0, done.stderr
    assert f"asked the control plane (pid {plane.up.pid} on " in done.stdout


def ended_as(plane: Plane, experiment: KVCacheExperiment) -> tuple[Outcome | None, OutcomeReason | None]:
    """Wait for an experiment's end; how it ended."""
    status = plane.until_ended(experiment.metadata.name).status
    return status.outcome, status.reason


def phase(plane: Plane) -> Any:
    policy = plane.policy()
    return policy.status.phase if policy and policy.status else None
