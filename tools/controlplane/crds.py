"""Apply the custom resource definitions of crds/ and wait until the API server serves them."""

from functools import partial
from pathlib import Path

from kvtune_api.names import GROUP, VERSION
from tools.controlplane.access import Access
from tools.controlplane.binaries import ROOT
from tools.controlplane.clock import until
from tools.controlplane.errors import NotStarted

CRDS = ROOT / "crds"
ESTABLISH_SECONDS = 120


def apply_crds(access: Access, folder: Path = CRDS) -> None:
    """Apply every definition of a folder; raises NotStarted with what kubectl said. Nothing without any."""
    if not sorted(folder.glob("*.yaml")):
        return
    done = access.kubectl("apply", "--server-side", "-f", folder)
    if done.returncode != 0:
        raise NotStarted(f"kubectl apply {folder}: {done.stderr.strip()}")
    for path in sorted(folder.glob("*.yaml")):
        listing = f"/apis/{GROUP}/{VERSION}/{path.stem}"  # 429 "storage is (re)initializing" at first
        if not until(partial(access.reads, listing), ESTABLISH_SECONDS):
            raise NotStarted(f"{listing}: cannot be listed after {ESTABLISH_SECONDS} s")
