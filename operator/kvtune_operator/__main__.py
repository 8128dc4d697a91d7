"""`python -m kvtune_operator`: the operator's process in a pod."""

import argparse
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kvtune_api.errors import KvtuneError, SpecError
from kvtune_operator.cluster_settings import ClusterSettings, from_environment, namespaces_in
from kvtune_operator.logs import log_to_stderr

INVALID, UNAVAILABLE, BUG = 3, 4, 70

EPILOG = """exit codes: 0 stopped, 1 lease lost, 2 wrong command line, 3 wrong setting or credentials, 4 port
or file not available, 7 a newer control plane has taken over the agents, 70 a bug. Without --kubeconfig the
credentials of the pod are used; POD_NAME, POD_NAMESPACE, WATCH_NAMESPACES are read from the environment."""


def main(args: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the operator; return its exit code."""
    given = parser(environment).parse_args(args)
    log_to_stderr(given.log_level, style=given.log_format)
    log = logging.getLogger("kvtune_operator")
    try:
        settings = settings_of(given, environment)
        from kvtune_operator.process import serve

        return serve(settings)
    except SpecError as error:
        log.error("wrong setting", extra={"error": str(error)})
        return INVALID
    except KvtuneError as error:
        log.error("cannot run", extra={"error": str(error)})
        return UNAVAILABLE
    except Exception:  # the last line of defence: a bug, told with its traceback
        log.exception("this is a bug")
        return BUG


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(
        prog="python -m kvtune_operator", description="Run kvtune's operator in a cluster.", epilog=EPILOG
    )
    held = from_environment(environment)
    add = found.add_argument
    add("--kubeconfig", type=Path, help="file with the cluster and credentials; default: those of the pod")
    add("--namespace", default=held.get("POD_NAMESPACE"), help="the operator's own; default: POD_NAMESPACE")
    add(
        "--watch-namespaces",
        default=held.get("WATCH_NAMESPACES", ""),
        help="namespaces whose policies are served, with commas; default: all, or WATCH_NAMESPACES",
    )
    add("--tick", type=float, default=5.0, help="seconds between two steps of a policy (%(default)s)")
    add(
        "--lease",
        type=float,
        default=15.0,
        help="seconds after which a silent replica is followed (%(default)s)",
    )
    add("--lease-name", default="kvtune-operator", help="name of the Lease (%(default)s)")
    add("--config-map", default="kvtune-operator", help="ConfigMap with settings read live (%(default)s)")
    add("--stop", type=float, default=50.0, help="seconds to restore incumbents when stopping (%(default)s)")
    add("--http-timeout", type=float, default=2.0, help="seconds for an agent's answer (%(default)s)")
    add("--http-parallel", type=int, default=64, help="requests to agents at once (%(default)s)")
    add("--api-timeout", type=float, default=10.0, help="seconds for the API server's answer (%(default)s)")
    add("--health-host", default="0.0.0.0", help="address of /healthz, /readyz and /metrics (%(default)s)")
    add("--health-port", type=int, default=8080, help="their port; 0: a free one (%(default)s)")
    add("--log-level", default="info", choices=("debug", "info", "warning", "error"), help="(%(default)s)")
    add("--log-format", default="json", choices=("json", "text"), help="(%(default)s)")
    return found


def settings_of(given: argparse.Namespace, environment: Mapping[str, str]) -> ClusterSettings:
    """The settings of a command line. Raises `SpecError` with everything wrong."""
    return ClusterSettings(
        namespace=given.namespace or "",
        pod_name=from_environment(environment).get("POD_NAME", "kvtune-operator"),
        kubeconfig=given.kubeconfig,
        watch_namespaces=namespaces_in(given.watch_namespaces),
        tick_seconds=given.tick,
        lease_name=given.lease_name,
        lease_seconds=given.lease,
        config_map=given.config_map,
        api_timeout_seconds=given.api_timeout,
        http_timeout_seconds=given.http_timeout,
        http_parallel=given.http_parallel,
        stop_seconds=given.stop,
        health_host=given.health_host,
        health_port=given.health_port,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
