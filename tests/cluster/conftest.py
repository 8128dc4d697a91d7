"""The real API server for the tests of this folder (fixtures.py)."""

from tests.cluster.fixtures import binaries, control_plane, kube, kubectl, namespace

__all__ = ["binaries", "control_plane", "kube", "kubectl", "namespace"]
