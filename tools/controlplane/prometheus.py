"""Start a Prometheus on loopback, with a configuration of ours and a store that is thrown away."""

import asyncio
import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError

from tools.controlplane.access import Access
from tools.controlplane.binaries import built
from tools.controlplane.errors import NotStarted
from tools.controlplane.process import Process, free_ports

SCRAPE_SECONDS = 1
PORT_NAME = "kvtune"
LOOK_SECONDS = 2.0
CHECK_SECONDS = 30
ATTEMPTS = 3

Config = Mapping[str, Any]


class Prometheus:
    """A Prometheus in a folder; runs while entered (`with` or `async with`), and ends with its parent.

    Raises NotBuilt when there is none, NotStarted with the end of its log when it does not start.
    """

    def __init__(self, folder: Path, config: Config, *, arguments: Sequence[str] = ()) -> None:
        """`arguments` are further flags, such as --query.lookback-delta=5s."""
        self._folder = folder
        self._config = config
        self._arguments = arguments
        self._process: Process | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """http://127.0.0.1:port"""
        return f"http://127.0.0.1:{self._port}"

    @property
    def process(self) -> Process:
        """What runs, to be frozen or killed by a test."""
        if self._process is None:
            raise NotStarted("prometheus was not started")
        return self._process

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Answer an instant query: the series of its vector."""
        place = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        with urllib.request.urlopen(place, timeout=CHECK_SECONDS) as answer:
            return list(json.load(answer)["data"]["result"])

    def __enter__(self) -> Self:
        for attempt in range(ATTEMPTS):
            process = self._start()
            try:
                process.wait_ready(self._ready)
            except NotStarted as error:
                _stop_or_raise(process, error, attempt)
            else:
                break
        return self

    async def __aenter__(self) -> Self:
        for attempt in range(ATTEMPTS):
            process = self._start()
            try:
                await asyncio.to_thread(process.wait_ready, self._ready)
            except NotStarted as error:
                _stop_or_raise(process, error, attempt)
            else:
                break
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.process.stop)

    def _start(self) -> Process:
        self._folder.mkdir(parents=True, exist_ok=True)
        [self._port] = free_ports(1)
        config = self._folder / "prometheus.yml"
        config.write_text(json.dumps(self._config, indent=1))
        command = [
            program("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--storage.tsdb.retention.time=1d",
            *self._arguments,
        ]
        self._process = Process("prometheus", command, folder=self._folder)
        self._process.log_file.unlink(missing_ok=True)
        self._process.start()
        return self._process

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=LOOK_SECONDS) as answer:
                return int(answer.status) == 200
        except (URLError, OSError):
            return False


def static_config(targets: Mapping[str, Sequence[str]], *, scrape_seconds: int = SCRAPE_SECONDS) -> Config:
    """Render a configuration with one job for each name, scraping host:port targets."""
    jobs = [
        {"job_name": name, "static_configs": [{"targets": list(places)}]} for name, places in targets.items()
    ]
    return _config(jobs, scrape_seconds)


def discovery_config(
    access: Access, token_file: Path, namespaces: Sequence[str], *, scrape_seconds: int = SCRAPE_SECONDS
) -> Config:
    """Render a configuration that finds running pods with a container port named `kvtune`.

    The token is of a ServiceAccount that may list and watch pods in these namespaces. Each series carries the
    labels namespace, pod and node, as with the usual PodMonitor.
    """
    server = {
        "api_server": access.url,
        "tls_config": {"ca_file": str(access.ca_file)},
        "authorization": {"credentials_file": str(token_file)},
    }
    meta = "__meta_kubernetes_"
    job = {
        "job_name": "kvtune-agents",
        "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": list(namespaces)}, **server}],
        "relabel_configs": [
            {"source_labels": [f"{meta}pod_container_port_name"], "regex": PORT_NAME, "action": "keep"},
            {"source_labels": [f"{meta}pod_phase"], "regex": "Running", "action": "keep"},
            {"source_labels": [f"{meta}namespace"], "target_label": "namespace"},
            {"source_labels": [f"{meta}pod_name"], "target_label": "pod"},
            {"source_labels": [f"{meta}pod_node_name"], "target_label": "node"},
        ],
    }
    return _config([job], scrape_seconds)


def check(config: Config, folder: Path) -> str | None:
    """Ask promtool about a configuration: None, or what it finds wrong."""
    path = folder / "checked.yml"
    path.write_text(json.dumps(config))
    done = subprocess.run(
        [program("promtool"), "check", "config", path],
        capture_output=True,
        text=True,
        timeout=CHECK_SECONDS,
        check=False,
    )
    return None if done.returncode == 0 else (done.stderr + done.stdout).strip()


def program(name: str) -> Path:
    """Return the path of prometheus or promtool; raises NotBuilt, with the reason, where there is none."""
    return built() / name


def _stop_or_raise(process: Process, error: NotStarted, attempt: int) -> None:
    process.stop()
    if "address already in use" not in process.log() or attempt + 1 == ATTEMPTS:
        raise error


def _config(jobs: Sequence[Mapping[str, Any]], scrape_seconds: int) -> Config:
    interval = f"{scrape_seconds}s"
    return {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "scrape_configs": list(jobs),
    }
