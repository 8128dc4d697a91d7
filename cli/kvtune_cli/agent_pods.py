"""Find replay agents by the labels of their pods, again and again, through the Kubernetes API.

Used by `kvtune traffic`. An agent is a pod that is Ready, not being deleted, and has a container port named
`kvtune`. While the API server does not answer, the agents last seen stay.
"""

import asyncio
import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from kvtune_api.errors import Unavailable
from kvtune_api.names import AGENT_PORT

log = logging.getLogger(__name__)

POLL_SECONDS = 2.0
TIMEOUT_SECONDS = 10.0
IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class AgentPods:
    """An asynchronous context in which `addresses` is kept up to date.

    Entering it raises `Unavailable` where there is no cluster, or no right to list its pods.
    """

    def __init__(self, selector: str, *, namespace: str | None, kubeconfig: Path | None, scheme: str) -> None:
        self.namespace = namespace or _current_namespace()
        self._selector = selector
        self._kubeconfig = kubeconfig
        self._scheme = scheme
        self._addresses: tuple[str, ...] = ()

    def addresses(self) -> Sequence[str]:
        """The agents that there were at the last look, in order."""
        return self._addresses

    async def __aenter__(self) -> "AgentPods":
        try:
            from kubernetes.aio import client
        except ImportError as error:
            raise Unavailable(
                "--selector needs the package kubernetes (pip install 'kvtune[control]')"
            ) from error
        self._client = client.ApiClient(await _configuration(self._kubeconfig))
        self._pods = client.CoreV1Api(self._client)
        try:
            self._addresses = await self._listed()
        except BaseException:
            await self._client.close()  # type: ignore[no-untyped-call]  # theirs
            raise
        self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._looking.cancel()
        await asyncio.gather(self._looking, return_exceptions=True)
        await self._client.close()  # type: ignore[no-untyped-call]  # theirs

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                self._addresses = await self._listed()
            except Unavailable as error:
                log.warning("agents not listed, the last ones stay", extra={"error": str(error)})

    async def _listed(self) -> tuple[str, ...]:
        """Ask; version 0 is answered from the server's memory."""
        import aiohttp
        from kubernetes.aio.client.exceptions import ApiException

        where = f"pods in namespace {self.namespace}"
        try:
            answer = await self._pods.list_namespaced_pod_without_preload_content(
                self.namespace,
                label_selector=self._selector,
                resource_version="0",
                _request_timeout=TIMEOUT_SECONDS,
            )
            text = await answer.read()
        except ApiException as error:
            raise Unavailable(f"may not list {where}: {error.reason}") from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unavailable(f"{where} not listed: {type(error).__name__}: {error}") from error
        if answer.status in (401, 403):
            raise Unavailable(f"may not list {where} (HTTP {answer.status}): {_message(text)}")
        if answer.status >= 400:
            raise Unavailable(f"{where} not listed: HTTP {answer.status}: {_message(text)}")
        found = (address_of(pod, self._scheme) for pod in json.loads(text)["items"])
        return tuple(sorted(address for address in found if address is not None))


def address_of(pod: Mapping[str, Any], scheme: str) -> str | None:
    """Where an agent answers; None for a pod that is none, or not ready, or on its way out."""
    status = pod.get("status", {})
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ()))
    if not ready or not status.get("podIP") or pod["metadata"].get("deletionTimestamp"):
        return None
    host = f"[{status['podIP']}]" if ":" in status["podIP"] else status["podIP"]
    for container in pod["spec"]["containers"]:
        for port in container.get("ports", ()):
            if port.get("name") == AGENT_PORT:
                return f"{scheme}://{host}:{port['containerPort']}"
    return None


async def _configuration(kubeconfig: Path | None) -> Any:
    """The access of a kubeconfig that was named, else of the pod that we are in, else of the user's."""
    from kubernetes.aio import client, config

    made = client.Configuration()
    named = kubeconfig or os.environ.get("KUBECONFIG")
    try:
        if named is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
            config.load_incluster_config(client_configuration=made)  # type: ignore[no-untyped-call]  # theirs
        else:
            file = os.fspath(named) if named is not None else None
            await config.load_kube_config(  # type: ignore[no-untyped-call]  # theirs
                config_file=file, client_configuration=made, persist_config=False
            )
    except (config.ConfigException, OSError) as error:
        raise Unavailable(f"no cluster: {error}") from error
    return made


def _current_namespace() -> str:
    try:
        return IN_POD.read_text(encoding="ascii").strip()
    except OSError:
        return "default"


def _message(text: bytes) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200].decode(errors="replace")
