"""Which binaries there are, where they come from, and where they are kept.

One Go module per family under tools/go/ pins every source by hash (go.mod, go.sum). The folder that holds the
binaries carries a hash of those files, so that another version is another folder and nothing is ever mixed.
"""

import hashlib
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from tools.controlplane.errors import NotBuilt

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / "tools" / "go"
LAYOUT = "1"
"""Changed when the way of building changes and what lies in the cache must not be used any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """One program: the Go package that is its main, in the module of its family."""

    name: str
    family: str
    package: str
    tags: str = ""
    """Build tags, which leave out what we never use."""


BINARIES = (
    Binary(name="etcd", family="etcd", package="go.etcd.io/etcd/server/v3"),
    Binary(name="kube-apiserver", family="kubernetes", package="k8s.io/kubernetes/cmd/kube-apiserver"),
    Binary(
        name="kube-controller-manager",
        family="kubernetes",
        package="k8s.io/kubernetes/cmd/kube-controller-manager",
    ),
    Binary(name="kube-scheduler", family="kubernetes", package="k8s.io/kubernetes/cmd/kube-scheduler"),
    Binary(name="kubectl", family="kubernetes", package="k8s.io/kubernetes/cmd/kubectl"),
    Binary(name="kwok", family="kwok", package="sigs.k8s.io/kwok/cmd/kwok"),
    # Not the machine's own: Debian builds Prometheus without the discovery of pods.
    Binary(
        name="prometheus",
        family="prometheus",
        package="github.com/prometheus/prometheus/cmd/prometheus",
        tags="remove_all_sd,enable_kubernetes_sd",
    ),
    Binary(
        name="promtool",
        family="prometheus",
        package="github.com/prometheus/prometheus/cmd/promtool",
        tags="remove_all_sd,enable_kubernetes_sd",
    ),
)


def cache_folder() -> Path:
    """Return the folder of this user's cache; XDG_CACHE_HOME moves it."""
    place = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(place) if place.startswith("/") else Path.home() / ".cache") / "kvtune"


def binaries_folder(modules: Path = MODULES) -> Path:
    """Return where the binaries of these go.mod and go.sum files belong, built or not."""
    return cache_folder() / f"controlplane-{_key(modules)}"


def built(modules: Path = MODULES) -> Path:
    """Return the folder of the binaries; raises NotBuilt, with the last attempt's reason, when one lacks."""
    folder = binaries_folder(modules)
    lacking = missing(folder)
    if not lacking:
        return folder
    why = folder / "why-not.txt"
    last = f" The last attempt: {why.read_text().strip()}" if why.exists() else ""
    raise NotBuilt(
        f"the control plane is not built: {', '.join(binary.name for binary in lacking)} not in {folder}."
        f" Run `make controlplane` (up to 35 minutes the first time, needs a network).{last}"
    )


def missing(folder: Path) -> list[Binary]:
    """Return the binaries that are not there yet."""
    return [binary for binary in BINARIES if not os.access(folder / binary.name, os.X_OK)]


def version_of(binary: Binary, modules: Path = MODULES) -> str:
    """Return the version that go.mod pins, such as v1.36.3."""
    text = _go_mod(binary.family, modules)
    required: list[tuple[str, str]] = re.findall(r"^\s*(?:require )?(\S+) (v\S+)", text, re.MULTILINE)
    holding = [
        (len(path), version) for path, version in required if (binary.package + "/").startswith(path + "/")
    ]
    if not holding:
        raise NotBuilt(f"tools/go/{binary.family}/go.mod does not require the module of {binary.package}")
    return max(holding)[1]


def ldflags(binary: Binary, modules: Path = MODULES) -> str:
    """Return the linker's flags, which tell a program its version (Kubernetes is v0.0.0 without)."""
    version = version_of(binary, modules)
    major, minor, patch = version.removeprefix("v").split(".", 2)
    values: dict[str, str] = {}
    if binary.family == "kubernetes":
        said = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            values |= {f"{package}.{name}": value for name, value in said.items()}
    elif binary.family == "prometheus":  # release 3.13.5 is the module v0.313.5
        release = f"{int(minor) // 100}.{int(minor) % 100}.{patch}"
        values = {"github.com/prometheus/common/version.Version": release}
    return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in values.items())])


def go_wanted(modules: Path = MODULES) -> tuple[int, int]:
    """Return the oldest version of Go, as (major, minor), that every go.mod accepts."""
    families = sorted({binary.family for binary in BINARIES})
    lines = [re.search(r"^go (\d+)\.(\d+)", _go_mod(family, modules), re.MULTILINE) for family in families]
    return max((int(found[1]), int(found[2])) for found in lines if found)


def _go_mod(family: str, modules: Path) -> str:
    return (modules / family / "go.mod").read_text()


def _key(modules: Path) -> str:
    digest = hashlib.sha256(f"{LAYOUT} {platform.system()} {platform.machine()}".encode())
    for family in sorted({binary.family for binary in BINARIES}):
        for name in ("go.mod", "go.sum"):
            digest.update(f"\0{family}/{name}\0".encode() + (modules / family / name).read_bytes())
    return digest.hexdigest()[:12]
