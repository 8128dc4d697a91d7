"""The real API server as one more implementation of a port (tests/cluster/fixtures.py), and a Prometheus that
holds a recording."""

from collections.abc import Iterator

import pytest

from kvtune_operator.clock import WallClock
from tests.cluster.fixtures import binaries, control_plane, kube, kubectl, namespace
from tests.contracts.recorded import Recorded, Recording
from tests.contracts.recorded_pods import record
from tools.controlplane.prometheus import Prometheus

__all__ = ["binaries", "control_plane", "kube", "kubectl", "namespace"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """A Prometheus that holds what recorded_pods.py writes."""
    folder = tmp_path_factory.mktemp("prometheus")
    recording = Recording(WallClock().now().timestamp() // 60 * 60 - 3600)
    record(recording)
    recording.store(folder / "data")
    with Prometheus(folder, {"scrape_configs": []}) as prometheus:
        yield Recorded(prometheus.url, recording.base)
