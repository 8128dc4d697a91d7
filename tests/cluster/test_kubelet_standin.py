"""The kubelet's stand-in on the real API server: what it runs, watches, restarts and ends."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.fixtures import Kubectl
from tests.cluster.pods import Pods, standin
from tests.e2e.processes import until
from tools.controlplane.access import Access
from tools.kubelet_standin.started import StandinProcess

SLEEP = {"command": ["sleep", "1000"]}


@pytest.fixture
def pods(control_plane: Access, namespace: str) -> Pods:
    return Pods(control_plane, namespace)


@pytest.fixture
def kubelet(control_plane: Access, namespace: str, tmp_path: Path) -> Iterator[StandinProcess]:
    with standin(control_plane, namespace, tmp_path) as started:
        yield started


def shell(script: str) -> dict[str, object]:
    return {"command": ["sh", "-c", script]}


def test_a_container_gets_its_variables_volumes_and_rights(
    pods: Pods, kubelet: StandinProcess, namespace: str
) -> None:
    pods.secret("s", key="from-secret")
    entry = {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}}
    fields = {"N": "metadata.name", "NS": "metadata.namespace", "IP": "status.podIP", "NODE": "spec.nodeName"}
    env = [{"name": k, "valueFrom": {"fieldRef": {"fieldPath": path}}} for k, path in fields.items()]
    script = "echo $0; cat /var/run/here/key /var/run/secrets/kubernetes.io/serviceaccount/namespace; echo"
    script += "; touch /etc/no || touch /var/lib/data/yes && echo written; exit 0"
    container = {
        "command": ["sh", "-c", script],
        "args": ["$(N) $(NS) $(NODE) $(S) $(UNKNOWN)"],
        "env": [*env, entry],
        "securityContext": {"readOnlyRootFilesystem": True},
        "volumeMounts": [
            {"name": "here", "mountPath": "/var/run/here"},
            {"name": "data", "mountPath": "/var/lib/data"},
        ],
    }
    volumes = [{"name": "here", "secret": {"secretName": "s"}}, {"name": "data", "emptyDir": {}}]

    pods.run("one", container, volumes=volumes, restartPolicy="Never")
    until(lambda: pods.container("one")["state"].get("terminated"), "it has ended")

    said = kubelet.logs(namespace, "one").splitlines()
    assert said[0] == f"one {namespace} {namespace}-1 from-secret $(UNKNOWN)"
    assert said[1] == f"from-secret{namespace}"
    assert said[-1] == "written"
    ended = pods.get("one")
    assert ended is not None
    assert ended["status"]["phase"] == "Succeeded"
    assert ended["status"]["podIP"].startswith("127.0.")
    assert not Path("/var/run/here").exists(), "nothing of a pod is seen outside it"


def test_a_container_that_ends_is_started_again_with_its_exit_code_kept(
    pods: Pods, kubelet: StandinProcess, namespace: str
) -> None:
    pods.run("crash", shell("echo again; exit 3"))

    status = until(
        lambda: found if (found := pods.container("crash"))["restartCount"] >= 2 else None, "two restarts"
    )

    assert until(
        lambda: pods.container("crash")["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff",
        "it waits",
    )
    assert (status["lastState"] or status["state"])["terminated"]["exitCode"] == 3
    assert not pods.ready("crash")
    assert kubelet.logs(namespace, "crash").count("again") >= 2
    assert "Back-off" in pods.event("crash", "BackOff")


def test_a_pod_waits_for_its_secret_and_follows_its_changes(
    pods: Pods, kubelet: StandinProcess, control_plane: Access, namespace: str
) -> None:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/var/run/v"}]}
    watching = "while true; do cat /var/run/v/token; echo; sleep .1; done"
    pods.run("late", {**shell(watching), **mount}, volumes=[{"name": "v", "secret": {"secretName": "late"}}])
    assert 'secret "late" not found' in pods.event("late", "FailedMount")
    assert pods.container("late")["state"].get("running") is None

    pods.secret("late", token="first")
    until(lambda: "first" in kubelet.logs(namespace, "late"), "the first token is read")
    secret = f"/api/v1/namespaces/{namespace}/secrets/late"
    control_plane.call("PATCH", secret, {"stringData": {"token": "second"}})

    until(lambda: "second" in kubelet.logs(namespace, "late"), "the second token is read")
    assert pods.container("late")["restartCount"] == 0


def test_a_variable_from_a_secret_that_is_not_there_is_said_in_the_status(
    pods: Pods, kubelet: StandinProcess
) -> None:
    entry = {"name": "S", "valueFrom": {"secretKeyRef": {"name": "none", "key": "key"}}}
    pods.run("early", {**SLEEP, "env": [entry]})

    waiting = until(
        lambda: w if (w := pods.container("early")["state"].get("waiting", {})).get("message") else None,
        "it says why it waits",
    )

    assert waiting == {"reason": "CreateContainerConfigError", "message": 'secret "none" not found'}


def test_an_image_that_nothing_is_known_of_is_said_in_the_status(pods: Pods, kubelet: StandinProcess) -> None:
    pods.run("image", {"image": "example.com/other:1"})

    until(
        lambda: pods.container("image")["state"].get("waiting", {}).get("reason") == "ErrImagePull",
        "it says that there is no image",
    )


def test_a_pod_is_ready_while_its_probe_passes(
    pods: Pods, kubelet: StandinProcess, control_plane: Access, namespace: str
) -> None:
    probe = {"exec": {"command": ["test", "-e", "/var/run/v/ok"]}, "periodSeconds": 1, "failureThreshold": 1}
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/var/run/v"}]}
    volume = {"name": "v", "secret": {"secretName": "gate", "optional": True}}
    pods.run("probed", {**SLEEP, **mount, "readinessProbe": probe}, volumes=[volume])
    assert "Readiness probe failed" in pods.event("probed", "Unhealthy")
    assert not pods.ready("probed")

    pods.secret("gate", ok="yes")
    until(lambda: pods.ready("probed"), "it is ready")
    control_plane.call("DELETE", f"/api/v1/namespaces/{namespace}/secrets/gate")

    until(lambda: not pods.ready("probed"), "it is no longer ready")
    assert pods.container("probed")["restartCount"] == 0


def test_a_container_whose_liveness_probe_fails_is_started_again(pods: Pods, kubelet: StandinProcess) -> None:
    probe = {"tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 1}
    pods.run("dead", {**SLEEP, "livenessProbe": probe}, terminationGracePeriodSeconds=1)

    until(lambda: pods.container("dead")["restartCount"] >= 1, "it was started again")
    assert "Liveness probe failed" in pods.event("dead", "Unhealthy")


def test_a_deleted_pod_is_asked_to_end_and_gone_when_it_has(
    pods: Pods, kubelet: StandinProcess, namespace: str, kubectl: Kubectl
) -> None:
    pods.run("good", shell("trap 'echo bye; exit 0' TERM; echo up; while true; do sleep .1; done"))
    pods.run("deaf", shell("trap '' TERM; echo up; while true; do sleep .1; done"))
    for name in ("good", "deaf"):
        until(lambda name=name: "up" in kubelet.logs(namespace, name), "it runs")

    for name in ("good", "deaf"):
        done = kubectl("delete", "pod", name, "-n", namespace, "--grace-period=1")
        assert done.returncode == 0, done.stderr

    assert kubelet.logs(namespace, "good") == "up\nbye\n"
    assert pods.get("deaf") is None


def test_a_drained_node_has_no_pods(
    pods: Pods, kubelet: StandinProcess, namespace: str, kubectl: Kubectl
) -> None:
    pods.run("evicted", SLEEP, terminationGracePeriodSeconds=1)
    until(lambda: pods.ready("evicted"), "it is ready")

    done = kubectl("drain", f"{namespace}-1", "--force", "--timeout=30s")

    assert done.returncode == 0, done.stderr
    assert pods.get("evicted") is None


def test_a_pod_acts_as_its_own_service_account(pods: Pods, kubelet: StandinProcess, namespace: str) -> None:
    command = ["kvtune", "traffic", "--selector=x=y"]
    pods.run("account", {"command": command}, restartPolicy="Never")

    ended = until(lambda: pods.container("account")["state"].get("terminated"), "it has ended")

    assert ended["exitCode"] == 4
    said = kubelet.logs(namespace, "account")
    assert f"may not list pods in namespace {namespace} (HTTP 403)" in said
    assert f"system:serviceaccount:{namespace}:default" in said


def test_nothing_outlives_a_stand_in_that_is_killed(
    pods: Pods, kubelet: StandinProcess, namespace: str
) -> None:
    listen = "import socket, time; s = socket.create_server(('$(IP)', 8000)); print('up'); time.sleep(1000)"
    ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    pods.run("orphan", {"command": ["sh", "-c", 'python -c "$0"; true'], "args": [listen], "env": [ip]})
    until(lambda: "up" in kubelet.logs(namespace, "orphan"), "it listens")
    found = pods.get("orphan")
    assert found is not None
    address = (found["status"]["podIP"], 8000)
    socket.create_connection(address).close()

    kubelet.kill()

    until(lambda: not _listens(address), "its pod is gone")


def _listens(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address).close()
    except OSError:
        return False
    return True
