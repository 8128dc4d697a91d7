"""Fixtures of a real API server, for tests/cluster/ and contract tests that import them in their conftest.py.

One control plane serves the whole run, all workers of xdist together; each test has a namespace of its own.
Nothing is built here: `make test` has done it, `make controlplane` does only that. KVTUNE_NO_CLUSTER=1
skips every test that needs it.
"""

import os
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from kvtune_operator.adapters.kube import Kube, connect
from tools.controlplane.access import Access
from tools.controlplane.binaries import built
from tools.controlplane.clock import until
from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.share import shared_control_plane

Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]

NAMESPACE_SECONDS = 30.0


@pytest.fixture(scope="session")
def binaries() -> Path:
    """The folder of etcd, kube-apiserver, kubectl, kwok, prometheus, promtool, …"""
    if os.environ.get("KVTUNE_NO_CLUSTER") == "1":
        pytest.skip("KVTUNE_NO_CLUSTER=1: no test starts a control plane")
    try:
        return built()
    except ControlPlaneError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def control_plane(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """etcd, API server, controllers and scheduler, with the definitions of crds/; the admin's access."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # the run's, shared by its workers
    try:
        with shared_control_plane(folder / "control-plane") as access:
            yield access
    except ControlPlaneError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def namespace(control_plane: Access) -> Iterator[str]:
    """A namespace of this test alone, its default ServiceAccount there; deleted after, not waited for."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    control_plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    try:
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        assert until(lambda: control_plane.reads(account), NAMESPACE_SECONDS), f"no {account}"
        yield name
    finally:
        control_plane.call("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
async def kube(control_plane: Access) -> AsyncIterator[Kube]:
    """The operator's own client, as the admin."""
    async with connect(control_plane.kubeconfig) as client:
        yield client


@pytest.fixture
def kubectl(control_plane: Access) -> Kubectl:
    """Run kubectl as the admin: `kubectl("get", "kvp", "-n", namespace, stdin=None)`."""
    return control_plane.kubectl
