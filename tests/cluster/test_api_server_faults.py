"""A faulty API server under a real operator with a live experiment: nothing is lost, it goes on by itself.

The tests of this file share one operator behind a proxy, in this order; its experiment runs through all of
them, and the last test looks at what has become of it.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest

from tests.cluster.api_proxy import ApiProxy, Call, Fault, Rule, densest
from tests.cluster.farm import Herd, short
from tests.cluster.operators import Operator, Policies, rights
from tests.cluster.shared import Object, Scene, scene
from tests.e2e.processes import KVTUNE, Running, until
from tools.controlplane.access import Access
from tools.controlplane.errors import Answered

LIVE = "live"
SPEC = short(
    experiment={"leaseDuration": "20s", "noDataTimeout": "120s", "maxDuration": "30m", "maxPairs": 40}
)


@pytest.fixture(scope="module")
def proxy(control_plane: Access) -> Iterator[ApiProxy]:
    with ApiProxy(control_plane).serving() as made:
        yield made


@pytest.fixture(scope="module")
def shared(
    control_plane: Access, proxy: ApiProxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("faults")
    herd = Herd(name=LIVE, gains={"cacheTTL": 0.02}, agents=12)
    with scene(control_plane, folder, herd, url=proxy.url, arguments=("--lease=40",)) as made:
        made.policies.apply(LIVE, **SPEC)
        until(lambda: made.status(LIVE).get("experiment"), "an experiment runs", lambda: made.context(LIVE))
        yield made


def kept(shared: Scene) -> None:
    """The operator lives and leads, and has shown no traceback."""
    assert shared.operator.alive, shared.operator.err[-3000:]
    shared.operator.check_no_traceback()
    assert shared.operator.details()["stage"] == "Leading"


def taken_up(shared: Scene, name: str) -> None:
    """Apply a policy and wait until it is accepted; delete it."""
    shared.policies.apply(name, mode="Observe")
    shared.policies.until_accepted(name)
    shared.access.call("DELETE", f"{shared.policies.path}/{name}")


@contextmanager
def another_writer(shared: Scene) -> Iterator[list[int]]:
    """Somebody who writes to policy and experiment all the time; how often it has."""
    ended, count = threading.Event(), [0]
    root = shared.policies.path.rpartition("/")[0]

    def write() -> None:
        while not ended.wait(0.02):
            count[0] += 1
            note = {"metadata": {"annotations": {"example.com/count": str(count[0])}}}
            for path in (f"{shared.policies.path}/{LIVE}", f"{root}/kvcacheexperiments/{LIVE}-00001"):
                try:
                    shared.access.call("PATCH", path, note)
                except Answered as error:
                    if error.status not in (404, 409):
                        raise

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield count
    finally:
        ended.set()
        thread.join()


def on_watches(fault: Fault) -> Rule:
    """The fault on every watch."""
    return lambda call: fault if call.watch else None


@pytest.mark.parametrize("code", [410, 500])
def test_case_33_watches_that_are_cut_and_then_refused_go_on_from_a_new_list(
    shared: Scene, proxy: ApiProxy, code: int
) -> None:
    faults = cycle((Fault(event=code), Fault(status=code)))
    with proxy.faulty(lambda call: next(faults) if call.watch else None) as calls:
        proxy.cut()
        until(lambda: sum(call.watch for call in calls) >= 4, "watches are tried again", lambda: calls)
        shared.ticks(3)
    assert densest(calls, 1.0) < 40, "no tight loop"
    kept(shared)
    taken_up(shared, f"after-{code}")


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "2"}], ids=["alone", "with-retry-after"])
def test_case_34_429_backs_off_and_recovers(shared: Scene, proxy: ApiProxy, headers: dict[str, str]) -> None:
    fault = Fault(status=429, headers=headers)
    with proxy.faulty(lambda call: fault) as calls:
        shared.ticks(6)
        kept(shared)
    assert densest(calls, 2.0) <= 12, "some tasks, each with a back-off"
    assert any("HTTP 429" in line for line in shared.operator.err.splitlines())
    taken_up(shared, "after-429")


def test_a_slow_api_server_is_waited_for(shared: Scene, proxy: ApiProxy) -> None:
    with proxy.faulty(lambda call: Fault(delay_seconds=2.0)):
        taken_up(shared, "slow")
        shared.ticks(1)
        kept(shared)


def test_a_frozen_api_server_costs_no_lease_that_lasts_longer(shared: Scene, proxy: ApiProxy) -> None:
    with proxy.faulty(lambda call: Fault(silent=True)) as calls:
        until(lambda: sum(call.is_lease for call in calls) >= 2, "a renewal has hung for 10 s", lambda: calls)
        kept(shared)
    taken_up(shared, "after-frost")
    kept(shared)


def test_case_28_with_another_writer_and_dead_watches_statuses_are_written_and_a_new_policy_is_found(
    shared: Scene, proxy: ApiProxy
) -> None:
    before = rows(shared)
    conflicts = shared.operator.err.count("lost the race")
    with (
        proxy.faulty(on_watches(Fault(swallow=True))),
        another_writer(shared) as count,
    ):
        shared.ticks(3)
        shared.policies.apply("unheard", mode="Observe")
        shared.policies.until_accepted("unheard")
        until(lambda: rows(shared) > before or ended(shared), "evidence grows", lambda: shared.context(LIVE))
    assert count[0] > 20
    assert shared.operator.err.count("lost the race") - conflicts < 20
    kept(shared)


def test_the_experiment_has_lost_nothing(shared: Scene) -> None:
    until(lambda: ended(shared), "the experiment ends", lambda: shared.context(LIVE))
    found = experiment(shared)
    assert f"{found['status']['outcome']}({found['status']['reason']})" == "Promoted(Superior)"
    path = shared.folder / "live.json"
    path.write_text(json.dumps(found))
    done = Running(shared.folder, "replay", KVTUNE, "replay", path)
    assert done.code() == 0, done.out + done.err
    assert "verdicts equal" in done.out
    assert not shared.farm.exposed(LIVE) or shared.status(LIVE)["experiment"] != "live-00001"
    assert shared.operator.stop() == 0


def experiment(shared: Scene) -> Object:
    """The first experiment."""
    path = f"{shared.policies.path.rpartition('/')[0]}/kvcacheexperiments/{LIVE}-00001"
    return shared.access.call("GET", path)


def ended(shared: Scene) -> bool:
    """Whether it has come to its end."""
    return bool(experiment(shared)["status"].get("endedAt"))


def rows(shared: Scene) -> int:
    """How many rows its ledger has, in words of the packed form or not."""
    return len(json.dumps(experiment(shared)["status"].get("rows", "")))


def test_a_watch_that_cannot_begin_is_begun_again(
    control_plane: Access, proxy: ApiProxy, namespace: str, tmp_path: Path
) -> None:
    def discovery(call: Call) -> Fault | None:
        """Refuse kopf its first look at the API's resources: after that it never ends by itself."""
        return Fault(status=500) if call.path.endswith("/apis/kvtune.dev/v1alpha1") else None

    with rights(control_plane, namespace):
        with proxy.faulty(discovery):
            operator = Operator(control_plane, namespace, tmp_path, "one", "--lease=40", url=proxy.url)
            try:
                operator.until_said("the watch on policies ended, starting it again")
            except BaseException:
                operator.clean_up()
                raise
        try:
            until(
                lambda: any(call.watch and "kvcachepolicies" in call.path for call in proxy.calls),
                "policies are watched",
                lambda: operator.err[-3000:],
            )
            assert operator.stop() == 0
        finally:
            operator.clean_up()


def test_credentials_that_are_revoked_end_the_lease_and_new_ones_are_taken(
    control_plane: Access, namespace: str, tmp_path: Path
) -> None:
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    policies = Policies(control_plane, namespace)
    with rights(control_plane, namespace):
        operator = Operator(control_plane, namespace, tmp_path, "one")
        again: Operator | None = None
        try:
            operator.until_stage("Leading")
            control_plane.call("DELETE", f"{account}/kvtune-operator")
            control_plane.call("POST", account, {"metadata": {"name": "kvtune-operator"}})
            assert operator.code() == 1
            assert "the API server does not accept our credentials" in operator.err
            assert "lease lost, everything is left as it is" in operator.events()
            again = Operator(control_plane, namespace, tmp_path / "again", "again")
            policies.apply("after")
            policies.until_accepted("after")
            assert again.stop() == 0
        finally:
            operator.clean_up()
            if again is not None:
                again.clean_up()
