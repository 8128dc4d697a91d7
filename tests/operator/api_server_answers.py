"""What API servers of tests answer, and a connection to one of them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kvtune_operator.adapters.kube import Kube, connect

POLICY = "/apis/kvtune.dev/v1alpha1/namespaces/x/kvcachepolicies/chat"
PODS = "/api/v1/namespaces/x/pods"
SHORT = 0.3
"""A timeout, in seconds, for servers that do not answer."""


def written(path: Path, address: str) -> Path:
    """Write a kubeconfig for the server at an address."""
    cluster = f"{{name: a, cluster: {{server: '{address}'}}}}"
    user = "{name: a, user: {token: secret-token}}"
    context = "{name: a, context: {cluster: a, user: a}}"
    path.write_text(f"clusters: [{cluster}]\nusers: [{user}]\ncontexts: [{context}]\ncurrent-context: a\n")
    return path


@asynccontextmanager
async def at(address: str, kubeconfig: Path, *, timeout_seconds: float = 5.0) -> AsyncIterator[Kube]:
    """A connection to the server at an address."""
    async with connect(written(kubeconfig, address), timeout_seconds=timeout_seconds) as kube:
        yield kube


def said(code: int, message: str = "because", **more: Any) -> bytes:
    """A failure in the words of an API server."""
    return json.dumps({"kind": "Status", "code": code, "message": message, **more}).encode()


def item(name: str) -> dict[str, Any]:
    """A pod in a list or a watch."""
    return {"metadata": {"name": name, "uid": f"uid-{name}"}}
