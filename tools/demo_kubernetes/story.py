"""Tell the demo: build, start, apply the examples, and tell the news until a promotion.

Every object is an example's, applied by kubectl as a user would. Times are wall seconds since the start.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from tools.controlplane.binaries import ROOT
from tools.controlplane.build import ensure_built
from tools.controlplane.clock import pause, seconds, until
from tools.demo_kubernetes.kubectl import Kubectl, KubectlError
from tools.demo_kubernetes.news import LEGEND, Told, tell_news
from tools.demo_kubernetes.place import Place, State, demo_folder, found_place

START_SECONDS = 180.0
READY_SECONDS = 180.0
STOP_SECONDS = 60.0
LOOK_SECONDS = 2.0
OPERATOR = ("-n", "kvtune-system", "rollout", "status", "deployment/kvtune-operator")
CONFIG = ("get", "configmap/kvtune-operator", "-n", "kvtune-system")
AGENTS = ("rollout", "status", "daemonset/kvtune-agent")

Say = Callable[[str], None]
Holder: TypeAlias = "subprocess.Popen[bytes]"
Watch = Callable[[Callable[[], bool], float], bool | None]


class Failed(Exception):
    """The demo cannot go on; the message says why and where to look."""


class Interrupted(Exception):
    """The user wants no more; the message says what is left."""


def run(say: Say, *, within_seconds: float) -> int:
    """Run the demo; 0 after a promotion. What was started is left up. Raises `Failed`, `Interrupted`."""
    refuse_second(demo_folder())
    with _when_interrupted("nothing was started; a build goes on where it was"):
        ensure_built(say)
    began = seconds()  # a first build takes as long as the demo may
    place, _ = _started(say)
    with _when_interrupted("the cluster is up until `make down`"):
        _addresses(say, place)
        say("a promotion takes up to 20 minutes, usually about 10")
        kubectl = Kubectl(Path(place.binaries), Path(place.kubeconfig))
        _applied(say, kubectl, place)
        say(LEGEND)
        return _watched(say, kubectl, place, began, within_seconds)


def _watched(say: Say, kubectl: Kubectl, place: Place, began: float, within_seconds: float) -> int:
    told = Told()
    while seconds() - began < within_seconds:
        try:
            outcome = tell_news(say, kubectl, told, seconds() - began)
        except KubectlError as error:
            if Place.read(demo_folder()) is None:
                raise Failed("the cluster was ended") from error
            say(f"{error}; trying again")
            outcome = None
        if outcome:
            say(f"promoted after {seconds() - began:.0f} s: {outcome}")
            _farewell(say, place)
            return 0
        pause(LOOK_SECONDS)
    say(kubectl("describe", "kvp"))
    _farewell(say, place)
    raise Failed(f"nothing was promoted within {within_seconds:.0f} s; the cluster is left up")


@contextlib.contextmanager
def _when_interrupted(left: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(left) from None


def refuse_second(folder: Path) -> None:
    """Raise Failed when the cluster of this folder is up, or starts."""
    place = found_place(folder)
    if place is not None:
        raise Failed(
            f"the demo's cluster is {place.state} already (process {place.pid}): `make down` ends it"
        )


def _started(say: Say) -> tuple[Place, Holder]:
    folder = demo_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    say("starting etcd, API server, controllers, scheduler, 9 nodes and Prometheus (about 20 s)")
    command = [sys.executable, "-m", "tools.demo_kubernetes", "hold", "--folder", str(folder)]
    return started(command, folder, START_SECONDS)


def started(
    command: Sequence[str], folder: Path, within_seconds: float, *, watch: Watch = until
) -> tuple[Place, Holder]:
    """Start the holder and wait until its cluster is up. Raises `Failed`; ended by Ctrl-C, `Interrupted`."""
    log = folder / "hold.log"
    begins_at = log.stat().st_size if log.exists() else 0
    with log.open("ab") as file:  # another holder may be writing to it
        holder = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )

    def up() -> Place | None:
        place = Place.read(folder)
        return place if place and place.pid == holder.pid and place.state is State.UP else None

    try:
        watch(lambda: holder.poll() is not None or up() is not None, within_seconds)
        place = up()
    except KeyboardInterrupt:
        _end(holder)
        raise Interrupted("the cluster was starting, and was ended") from None
    if place is None:
        if holder.poll() == 0:
            raise Failed("the cluster was ended during its start")
        _end(holder)
        raise Failed(f"the cluster did not start:\n{_tail(log, begins_at)}")
    return place, holder


def _end(holder: Holder) -> None:
    holder.terminate()
    try:
        holder.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        holder.kill()
        holder.wait()


def _applied(say: Say, kubectl: Kubectl, place: Place) -> None:
    """What a user applies, in a user's order; then wait until all of it runs."""
    examples = ROOT / "examples"
    for text, files in (
        ("the CRDs", [ROOT / "crds"]),
        ("the operator", [examples / "operator.yaml"]),
        ("agents on 8 nodes, and chat traffic", [examples / "agent.yaml", examples / "traffic.yaml"]),
    ):
        say(f"kubectl apply: {text}")
        kubectl("apply", *(part for file in files for part in ("-f", str(file))))
        if "CRDs" in text:
            kubectl("wait", "--for=condition=Established", "crd/kvcachepolicies.kvtune.dev", "--timeout=30s")
            kubectl(
                "wait", "--for=condition=Established", "crd/kvcacheexperiments.kvtune.dev", "--timeout=30s"
            )
    say("kubectl patch configmap kvtune-operator: this Prometheus for all policies")
    name_prometheus(kubectl, place)
    quick_agents(kubectl)
    say("kubectl apply: examples/quick.yaml")
    kubectl("apply", "-f", str(examples / "quick.yaml"))
    for what in (OPERATOR, AGENTS):
        _until_ready(say, kubectl, what, place)


def name_prometheus(kubectl: Kubectl, place: Place) -> None:
    """Name this cluster's Prometheus in the operator's ConfigMap, which is read live."""
    held = json.loads(kubectl(*CONFIG, "-o", "json"))["data"]["config.yaml"]
    chosen = f"\nprometheus: {{address: '{place.prometheus}', scrapeInterval: 1s, scrapeDelay: 2s}}\n"
    patch = json.dumps({"data": {"config.yaml": held + chosen}})
    kubectl("patch", *CONFIG[1:], "--type=merge", "-p", patch)


def quick_agents(kubectl: Kubectl) -> None:
    """Let agents and traffic start as examples/quick.yaml does: small caches, hasty people."""
    start = ["--cache-ttl=3s", "--eviction-ratio=0.3", "--host-memory=5836Mi"]
    kubectl(*_patch("daemonset/kvtune-agent", "agent", start, kubectl))
    kubectl(*_patch("deployment/kvtune-traffic", "traffic", ["--haste=10"], kubectl))


def _patch(what: str, container: str, options: Sequence[str], kubectl: Kubectl) -> list[str]:
    held = json.loads(kubectl("get", what, "-o", "json"))["spec"]["template"]["spec"]["containers"]
    old = next(c["args"] for c in held if c["name"] == container)
    names = {option.partition("=")[0] for option in options}
    args = [arg for arg in old if arg.partition("=")[0] not in names] + list(options)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": container, "args": args}]}}}}
    return ["patch", what, "--type=strategic", "-p", json.dumps(patch)]


def _until_ready(say: Say, kubectl: Kubectl, what: Sequence[str], place: Place) -> None:
    try:
        kubectl(*what, f"--timeout={READY_SECONDS:.0f}s", timeout_seconds=READY_SECONDS + 10)
    except KubectlError as error:
        pods = kubectl("get", "pods", "-A", "-o", "wide")
        raise Failed(f"{error}\n{pods}\nlogs: {place.logs}") from error
    say(f"ready: {what[-1]}")


def _addresses(say: Say, place: Place) -> None:
    say(
        "the cluster is up; to look at it from another terminal:\n"
        f"  export KUBECONFIG={place.kubeconfig}\n"
        f'  export PATH="{place.binaries}:$PATH"\n'
        f"  API server {place.url}, Prometheus {place.prometheus}\n"
        f"  logs of pods: {place.logs} (`kubectl logs` does not work: there is no kubelet)"
    )


def _farewell(say: Say, place: Place) -> None:
    say(
        "the cluster is left up until `make down`; to look at it:\n"
        f"  export KUBECONFIG={place.kubeconfig}\n"
        f'  export PATH="{place.binaries}:$PATH"\n'
        "  kubectl get kvp,kvx -o wide; kubectl describe kvp quick; kubectl get pods -A -o wide\n"
        f"  logs of pods: {place.logs} (`kubectl logs` does not work: there is no kubelet)\n"
        "  kubectl delete kvp --all      # every agent returns to its incumbent"
    )


def _tail(log: Path, begins_at: int) -> str:
    with log.open("rb") as file:
        file.seek(begins_at)
        return "\n".join(file.read().decode(errors="replace").splitlines()[-15:]) or "(it said nothing)"
