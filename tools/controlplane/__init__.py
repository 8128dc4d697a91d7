"""A real Kubernetes control plane of plain processes, for tests, the demo and development."""
