"""kill -9 of the control plane and of agents under traffic: candidates end by themselves, nothing is lost."""

import signal
from collections import Counter

from kvtune_api.experiment import KVCacheExperiment
from tests.e2e.conftest import NewPlane
from tests.e2e.fleet import Fleet, Plane
from tests.e2e.policies import quick
from tests.e2e.processes import kvtune, until


def test_after_kill_9_agents_come_home_and_a_late_restart_drops_the_block(
    fleet: Fleet, new_plane: NewPlane
) -> None:
    plane = new_plane()
    plane.start()
    before = lapses(fleet)
    killed, exposed = plane.kill_9_while_exposed()
    until(fleet.at_home, "leases end")
    after = lapses(fleet)
    assert all(after[number] > before[number] for number in exposed), "nobody told them"

    plane.start()

    ended = plane.until_ended(killed.metadata.name)
    assert "LeaseLapsed" in plane.events()
    repeated = {(row.block, row.attempt) for row in ended.status.rows if row.attempt}
    assert repeated, "the block that lost its leases is measured again with new coins"
    assert_replays(plane)
    assert_each_epoch_once(ended)


def test_a_restart_within_the_lease_goes_on_and_counts_no_epoch_twice(
    fleet: Fleet, new_plane: NewPlane
) -> None:
    plane = new_plane(quick(experiment={"leaseDuration": "60s"}))
    plane.start()
    plane.until(
        lambda e: any(row.block >= 1 for row in e.status.rows), "the first epoch of a block is counted"
    )
    killed, exposed = plane.kill_9_while_exposed()
    rows = killed.status.rows
    assert rows

    plane.start()
    assert set(exposed) & set(fleet.exposed()), "no lease has ended"

    ended = plane.until_ended(killed.metadata.name)
    assert ended.status.rows[: len(rows)] == rows
    assert "LeaseLapsed" not in plane.events()
    assert_replays(plane)
    assert_each_epoch_once(ended)


def test_a_killed_agent_comes_back_on_its_incumbent_and_the_experiment_ends_with_a_reason(
    fleet: Fleet, new_plane: NewPlane
) -> None:
    plane = new_plane()
    plane.start()
    running = plane.until_exposed()
    number = fleet.exposed()[0]
    incumbent = fleet.reports()[number].running.incumbent
    fleet.agents[number].kill_9()

    fleet.restart_agent(number)

    report = fleet.report(number)
    assert report is not None
    assert report.running.incumbent == incumbent
    ended = plane.until_ended(running.metadata.name)
    assert ended.status.outcome is not None
    assert ended.status.message
    assert plane.up.stop(signal.SIGINT) == 130
    assert fleet.at_home()


def lapses(fleet: Fleet) -> list[int]:
    """How many leases have run out at each agent."""
    return [report.running.lease_lapses for report in fleet.reports()]


def assert_replays(plane: Plane) -> None:
    done = kvtune("replay", plane.path)
    assert done.returncode == 0, done.stdout
    assert "verdicts equal" in done.stdout


def assert_each_epoch_once(experiment: KVCacheExperiment) -> None:
    """Every epoch of every pair stands at most once in the ledger."""
    seen = Counter((row.block, row.attempt, row.epoch, row.pair) for row in experiment.status.rows)
    assert all(count == 1 for count in seen.values()), seen
