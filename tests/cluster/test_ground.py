"""kwok and Prometheus on the real API server: pods without a kubelet, found and scraped by name."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fixtures import Kubectl
from tests.e2e.processes import until
from tools.controlplane.access import Access
from tools.controlplane.kwok import Kwok, apply_nodes, delete_nodes, wait_pods
from tools.controlplane.prometheus import Prometheus, check, discovery_config, static_config

PODS = 3


class Exporter(BaseHTTPRequestHandler):
    """Answer every GET with one gauge that says which address was asked."""

    def do_GET(self) -> None:
        body = f'asked{{address="{self.connection.getsockname()[0]}"}} 1\n'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def exporter_port() -> Iterator[int]:
    with ThreadingHTTPServer(("0.0.0.0", 0), Exporter) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_prometheus_scrapes_the_targets_that_it_is_given(
    exporter_port: int, tmp_path: Path, binaries: Path
) -> None:
    config = static_config({"given": [f"127.0.0.1:{exporter_port}"]})
    assert check(config, tmp_path) is None
    with Prometheus(tmp_path / "prometheus", config) as prometheus:
        [series] = until(lambda: prometheus.query("asked") or None, "it has scraped")

        assert series["metric"]["job"] == "given"
        assert series["metric"]["address"] == "127.0.0.1"
    assert not prometheus.process.alive


def test_promtool_says_what_is_wrong_with_a_configuration(tmp_path: Path, binaries: Path) -> None:
    assert "bogus" in (check({"bogus": 1}, tmp_path) or "")


def test_pods_on_nodes_without_a_kubelet_are_discovered_and_scraped(
    control_plane: Access,
    namespace: str,
    kubectl: Kubectl,
    exporter_port: int,
    tmp_path: Path,
    binaries: Path,
) -> None:
    _run_pods(control_plane, namespace, exporter_port)
    kubectl("create", "serviceaccount", "prometheus", "-n", namespace)
    kubectl("create", "role", "finder", "--verb=get,list,watch", "--resource=pods", "-n", namespace)
    kubectl("create", "rolebinding", "finder", "--role=finder", "-n", namespace)
    kubectl(
        "set", "subject", "rolebinding", "finder", "-n", namespace, f"--serviceaccount={namespace}:prometheus"
    )
    token_file = tmp_path / "token"
    token_file.write_text(control_plane.token_for("prometheus", namespace))
    config = discovery_config(control_plane, token_file, [namespace])
    assert check(config, tmp_path) is None

    with Kwok(tmp_path / "kwok", control_plane, group=namespace):
        try:
            wait_pods(control_plane, namespace, "app=agent", PODS)
            with Prometheus(tmp_path / "prometheus", config) as prometheus:
                found = until(lambda: _all_of(prometheus.query("asked")), "all pods are scraped")
        finally:
            delete_nodes(control_plane, group=namespace)

    metrics = [series["metric"] for series in found]
    assert {metric["namespace"] for metric in metrics} == {namespace}
    assert len({metric["pod"] for metric in metrics}) == PODS
    assert {metric["node"] for metric in metrics} == {f"{namespace}-{number:04}" for number in range(PODS)}
    assert all(metric["instance"].startswith(f"{metric['address']}:") for metric in metrics)
    assert all(metric["address"].startswith("127.1.") for metric in metrics)


def test_a_pod_that_pretends_is_not_ready(control_plane: Access, namespace: str, tmp_path: Path) -> None:
    _run_pods(control_plane, namespace, 80, {"kvtune.dev/pretend": "not-ready"})
    with Kwok(tmp_path / "kwok", control_plane, group=namespace):
        try:
            wait_pods(control_plane, namespace, "app=agent", PODS)
        finally:
            delete_nodes(control_plane, group=namespace)

    pods = control_plane.call("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    ready = [c["status"] for pod in pods for c in pod["status"]["conditions"] if c["type"] == "Ready"]
    assert ready == ["False"] * PODS


def _all_of(series: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    return series if len(series) == PODS else None


def _run_pods(access: Access, namespace: str, port: int, annotations: dict[str, str] | None = None) -> None:
    """Apply nodes of this namespace's own, and a DaemonSet on them."""
    apply_nodes(access, namespace, PODS, group=namespace)
    container = {"name": "agent", "image": "none", "ports": [{"name": "kvtune", "containerPort": port}]}
    template = {
        "metadata": {"labels": {"app": "agent"}, "annotations": annotations or {}},
        "spec": {"nodeSelector": {"type": namespace}, "containers": [container]},
    }
    access.call(
        "POST",
        f"/apis/apps/v1/namespaces/{namespace}/daemonsets",
        {
            "metadata": {"name": "agent"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template},
        },
    )
