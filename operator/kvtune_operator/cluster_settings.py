"""What an operator in a cluster is told at its start. Frozen, checked once, passed down.

What changes while it runs stands in a ConfigMap (live_config.py).
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kvtune_api.errors import Problem, SpecError

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

TASK_SILENCE_SECONDS = 60.0
"""A tick may wait for several calls to an API server that hangs, each with its timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Settings of one operator. Raises `SpecError` with every problem at once."""

    namespace: str
    """The operator's own: its Lease and its ConfigMap lie here."""

    pod_name: str = "kvtune-operator"
    """Begins this replica's identity."""

    kubeconfig: Path | None = None
    """None: the credentials of the pod that this process runs in."""

    watch_namespaces: tuple[str, ...] = ()
    """Namespaces whose policies are served; none: all of the cluster."""

    tick_seconds: float = 5.0
    """Between two steps of a policy."""

    lease_name: str = "kvtune-operator"
    lease_seconds: float = 15.0
    """A replica that is silent for so long is followed by another."""

    config_map: str = "kvtune-operator"
    api_timeout_seconds: float = 10.0
    """For one call to the API server."""

    http_timeout_seconds: float = 2.0
    """In which an agent must have answered."""

    http_parallel: int = 64
    """At most this many requests to agents at once."""

    stop_seconds: float = 50.0
    """When stopping without a standby, agents must be back on their incumbents within this; shorter than the
    pod's terminationGracePeriodSeconds."""

    health_host: str = "0.0.0.0"
    health_port: int = 8080
    """Port of /healthz, /readyz, /metrics and /v1/status; 0 takes a free one."""

    speed: float = 1.0
    """A cluster's clock is never scaled."""

    ends_at: datetime | None = None
    """An operator has no end."""

    def __post_init__(self) -> None:
        found = tuple(self._problems())
        if found:
            raise SpecError(*found)

    @property
    def stuck_after_seconds(self) -> float:
        """Seconds without a finished step after which a policy's task counts as stuck."""
        return max(TASK_SILENCE_SECONDS, 3 * self.tick_seconds, 6 * self.api_timeout_seconds)

    @property
    def served(self) -> tuple[str, ...]:
        """Namespaces in words, for messages."""
        return self.watch_namespaces or ("all namespaces",)

    def _problems(self) -> Iterator[Problem]:
        numbers = (
            ("tickSeconds", self.tick_seconds, 0.1, 3600.0),
            ("leaseSeconds", self.lease_seconds, 1.0, 300.0),
            ("apiTimeoutSeconds", self.api_timeout_seconds, 0.1, 300.0),
            ("httpTimeoutSeconds", self.http_timeout_seconds, 0.1, 300.0),
            ("httpParallel", self.http_parallel, 1, 1000),
            ("stopSeconds", self.stop_seconds, 0.0, 3600.0),
            ("healthPort", self.health_port, 0, 65_535),
        )
        for name, value, least, most in numbers:
            if not (math.isfinite(value) and least <= value <= most):
                yield Problem(name, f"{value:g} is not between {least:g} and {most:g}")
        names = (("leaseName", self.lease_name), ("configMap", self.config_map), ("podName", self.pod_name))
        for field, text in names:
            if NAME.fullmatch(text) is None:
                yield Problem(field, f"{text!r} is no name of a Kubernetes object")
        if LABEL.fullmatch(self.namespace) is None:
            yield Problem("namespace", f"{self.namespace!r} is no namespace (POD_NAMESPACE or --namespace)")
        for index, text in enumerate(self.watch_namespaces):
            if LABEL.fullmatch(text) is None:
                yield Problem(f"watchNamespaces[{index}]", f"{text!r} is no namespace")


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Defaults that a pod gets from its environment: POD_NAME, POD_NAMESPACE, WATCH_NAMESPACES."""
    wanted = ("POD_NAME", "POD_NAMESPACE", "WATCH_NAMESPACES")
    return {name: environment[name].strip() for name in wanted if environment.get(name, "").strip()}


def namespaces_in(text: str) -> tuple[str, ...]:
    """Namespaces from a list with commas, each once."""
    parts = (part.strip() for part in text.split(","))
    return tuple(dict.fromkeys(part for part in parts if part))
