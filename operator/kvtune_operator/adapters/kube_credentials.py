"""Credentials for an API server: of the pod that this process runs in, or of a kubeconfig.

Both are read again while connected, so that a token that expires is replaced. Redirects are refused: no API
server sends us elsewhere, and our token stays with it.
"""

import asyncio
from pathlib import Path

import aiohttp
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import load_incluster_config, load_kube_config

CREDENTIALS_SECONDS = 60.0
"""A kubeconfig is read again after this long, as `kubernetes.aio` does with the token of a pod."""


async def configuration_of(kubeconfig: Path | None) -> Configuration:
    """Where the API server is and how to log in; raise what `kubernetes.aio` raises when it cannot tell."""
    configuration = Configuration(trace_configs=[_no_redirects()])
    if kubeconfig is None:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # theirs
        return configuration
    loop = asyncio.get_running_loop()
    await _load(kubeconfig, configuration)
    read_at = loop.time()

    async def refresh(held: Configuration) -> None:
        nonlocal read_at
        if loop.time() - read_at >= CREDENTIALS_SECONDS:
            read_at = loop.time()
            await _load(kubeconfig, held)

    configuration.refresh_api_key_hook = refresh  # type: ignore[assignment]  # declared as None, used as this
    return configuration


async def _load(kubeconfig: Path, configuration: Configuration) -> None:
    await load_kube_config(  # type: ignore[no-untyped-call]  # theirs
        config_file=str(kubeconfig), client_configuration=configuration, persist_config=False
    )


def _no_redirects() -> aiohttp.TraceConfig:
    """Refuse redirects: no API server sends us elsewhere, and our token stays with it."""
    config = aiohttp.TraceConfig()

    async def refuse(session: object, context: object, seen: aiohttp.TraceRequestRedirectParams) -> None:
        raise aiohttp.ClientError(f"HTTP {seen.response.status}: redirects are not followed")

    config.on_request_redirect.append(refuse)
    return config
