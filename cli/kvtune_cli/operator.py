"""`kvtune operator`: run the operator for a cluster, from a laptop or in a pod."""

import os
from pathlib import Path
from typing import Annotated

import typer


def operator(
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="Cluster and credentials; default: those of the pod.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="The operator's own; default: POD_NAMESPACE.")
    ] = None,
    watch_namespaces: Annotated[
        str | None, typer.Option("--watch-namespaces", help="Served namespaces, with commas; default: all.")
    ] = None,
    tick: Annotated[float, typer.Option("--tick", help="Seconds between steps of a policy.")] = 5.0,
    lease: Annotated[float, typer.Option("--lease", help="A silent replica is followed after this.")] = 15.0,
    lease_name: Annotated[str, typer.Option("--lease-name", help="Name of the Lease.")] = "kvtune-operator",
    config_map: Annotated[
        str, typer.Option("--config-map", help="ConfigMap with settings read live.")
    ] = "kvtune-operator",
    stop: Annotated[float, typer.Option("--stop", help="Seconds to restore incumbents at the end.")] = 50.0,
    http_timeout: Annotated[
        float, typer.Option("--http-timeout", help="Seconds for an agent's answer.")
    ] = 2.0,
    http_parallel: Annotated[int, typer.Option("--http-parallel", help="Requests to agents at once.")] = 64,
    health_host: Annotated[str, typer.Option("--health-host", help="Address of /healthz.")] = "127.0.0.1",
    health_port: Annotated[int, typer.Option("--health-port", help="0: a free one.")] = 0,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "info",
    log_format: Annotated[str, typer.Option("--log-format", help="text or json.")] = "text",
) -> None:
    """Run the operator: serve all KVCachePolicies of a cluster until Ctrl-C, which restores incumbents.

    Example: kvtune operator --kubeconfig ~/.kube/config --namespace kvtune-system
    """
    from kvtune_operator.cluster_settings import ClusterSettings, from_environment, namespaces_in
    from kvtune_operator.logs import log_to_stderr
    from kvtune_operator.process import serve

    _check("--log-level", log_level, ("debug", "info", "warning", "error"))
    _check("--log-format", log_format, ("text", "json"))
    held = from_environment(os.environ)
    served = held.get("WATCH_NAMESPACES", "") if watch_namespaces is None else watch_namespaces
    settings = ClusterSettings(
        namespace=namespace or held.get("POD_NAMESPACE", ""),
        pod_name=held.get("POD_NAME", "kvtune-operator"),
        kubeconfig=kubeconfig,
        watch_namespaces=namespaces_in(served),
        tick_seconds=tick,
        lease_seconds=lease,
        lease_name=lease_name,
        config_map=config_map,
        stop_seconds=stop,
        http_timeout_seconds=http_timeout,
        http_parallel=http_parallel,
        health_host=health_host,
        health_port=health_port,
    )
    log_to_stderr(log_level, style=log_format)
    raise typer.Exit(serve(settings))


def _check(option: str, given: str, allowed: tuple[str, ...]) -> None:
    if given.lower() not in allowed:
        raise typer.BadParameter(f"{given!r} is not {', '.join(allowed)}", param_hint=option)
