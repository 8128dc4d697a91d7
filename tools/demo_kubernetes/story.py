"""Tell the demo: build, start, apply the examples, and stream `kubectl get kvp,kvx` until a promotion.

Every object is an example's, applied by kubectl as a user would. Times are wall seconds since the start.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.controlplane.binaries import ROOT
from tools.controlplane.build import ensure_built
from tools.controlplane.clock import pause, seconds, until
from tools.controlplane.prometheus import program
from tools.demo_kubernetes.kubectl import Kubectl, KubectlError
from tools.demo_kubernetes.place import Place, demo_folder

START_SECONDS = 90.0
READY_SECONDS = 180.0
LOOK_SECONDS = 1.0
OPERATOR = ("-n", "kvtune-system", "rollout", "status", "deployment/kvtune-operator")
CONFIG = ("get", "configmap/kvtune-operator", "-n", "kvtune-system")
AGENTS = ("rollout", "status", "daemonset/kvtune-agent")

AGE = re.compile(r"\b(\d+[smhd])+\b *")
"""An age moves all the time; it makes no news."""

Say = Callable[[str], None]


class Failed(Exception):
    """The demo cannot go on; the message says why and where to look."""


@dataclass(slots=True, kw_only=True)
class Told:
    """What has been printed already, so that only news is."""

    table: str = ""
    events: set[str] = field(default_factory=set)


def run(say: Say, *, within_seconds: float) -> int:
    """Run the demo; 0 after a promotion. What was started is left up either way. Raises `Failed`."""
    began = seconds()
    program("prometheus")
    ensure_built(say)
    place = _started(say)
    kubectl = Kubectl(Path(place.binaries), Path(place.kubeconfig))
    _applied(say, kubectl, place)
    told = Told()
    while True:
        outcome = _promoted(kubectl)
        tell_news(say, kubectl, told, seconds() - began)
        if outcome:
            say(f"promoted after {seconds() - began:.0f} s: {outcome}")
            _farewell(say, place)
            return 0
        if seconds() - began > within_seconds:
            say(kubectl("describe", "kvp"))
            _farewell(say, place)
            raise Failed(f"nothing was promoted within {within_seconds:.0f} s; the cluster is left up")
        pause(LOOK_SECONDS)


def _started(say: Say) -> Place:
    folder = demo_folder()
    if Place.read(folder) is not None:
        raise Failed("the demo's cluster is up already: `make down` ends it")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    (folder / "place.json").unlink(missing_ok=True)
    say("starting etcd, API server, controllers, scheduler, 9 nodes and Prometheus")
    log = folder / "hold.log"
    with log.open("wb") as file:
        holder = subprocess.Popen(
            [sys.executable, "-m", "tools.demo_kubernetes", "hold", "--folder", str(folder)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    until(lambda: holder.poll() is not None or Place.read(folder) is not None, START_SECONDS)
    place = Place.read(folder)
    if place is None:
        holder.kill()
        raise Failed(f"the cluster did not start:\n{_tail(log)}")
    return place


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


def _promoted(kubectl: Kubectl) -> str | None:
    for item in kubectl.items("kvx"):
        status = item.get("status", {})
        if status.get("outcome") == "Promoted":
            return f"{item['metadata']['name']}: {status.get('message', '')}"
    return None


def tell_news(say: Say, kubectl: Kubectl, told: Told, elapsed: float) -> None:
    """Print the tables when they have changed in more than ages, and new events."""
    for line in _events(kubectl):
        if line not in told.events:
            told.events.add(line)
            say(f"{elapsed:4.0f} s  event  {line}")
    table = kubectl("get", "kvp,kvx").rstrip()
    rows = " ".join(AGE.sub("", table).split())
    if rows != told.table:
        told.table = rows
        say(f"{elapsed:4.0f} s  $ kubectl get kvp,kvx\n{table}\n")


def _events(kubectl: Kubectl) -> list[str]:
    found = [
        item
        for item in kubectl.items("events")
        if str(item.get("involvedObject", {}).get("apiVersion", "")).startswith("kvtune.dev/")
    ]
    found.sort(key=lambda item: str(item.get("firstTimestamp")))
    return [
        f"{item['type']} {item['reason']} {item['involvedObject']['name']}: {item['message']}"
        for item in found
    ]


def _farewell(say: Say, place: Place) -> None:
    say(
        "the cluster is left up until `make down`; to look at it:\n"
        f'  export KUBECONFIG={place.kubeconfig} PATH="{place.binaries}:$PATH"\n'
        "  kubectl get kvp,kvx -o wide; kubectl describe kvp quick; kubectl get pods -A -o wide\n"
        f"  API server {place.url}, Prometheus {place.prometheus}, logs of pods in {place.logs}\n"
        "  kubectl delete kvp --all      # every agent returns to its incumbent"
    )


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else "(no log)"
