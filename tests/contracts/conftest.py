"""The real API server as one more implementation of a port (tests/cluster/fixtures.py)."""

from tests.cluster.fixtures import binaries, control_plane, kube, kubectl, namespace

__all__ = ["binaries", "control_plane", "kube", "kubectl", "namespace"]
