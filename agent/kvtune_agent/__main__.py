"""Start one agent from a shell: `python -m kvtune_agent --name a1 ...`.

The composition root of the node process; `kvtune agent` does the same with more help.
"""

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from kvtune_agent.exits import ExitCode, exit_code
from kvtune_agent.serve import run_agent
from kvtune_agent.settings import ENGINES, AgentSettings
from kvtune_api.codec import parse
from kvtune_api.errors import KvtuneError
from kvtune_api.knobs import CacheConfig
from kvtune_cache.constants import PRESETS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run an agent; return the exit code of `kvtune_agent.exits`."""
    chosen = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        asyncio.run(run_agent(_settings(chosen), listening=lambda url: _say(chosen.name, url)))
    except KvtuneError as error:
        sys.stderr.write(f"kvtune agent {chosen.name}: {error}\n")
        return exit_code(error)
    return ExitCode.OK


def _say(name: str, url: str) -> None:
    sys.stdout.write(f"kvtune agent {name} listens on {url}\n")
    sys.stdout.flush()


def _settings(chosen: argparse.Namespace) -> AgentSettings:
    knobs = {
        "cacheTTL": chosen.cache_ttl,
        "evictionRatio": chosen.eviction_ratio,
        "tiers": {"hostMemory": chosen.host_memory},
        "evictionPolicy": chosen.eviction_policy,
        "storeThreshold": chosen.store_threshold,
    }
    return AgentSettings(
        name=chosen.name,
        config=parse(CacheConfig, knobs, root="config"),
        state_dir=chosen.state_dir,
        token_file=chosen.token_file,
        host=chosen.host,
        port=chosen.port,
        engine=chosen.engine,
        preset=chosen.preset,
        origin=chosen.origin,
        speed=chosen.speed,
        keep_seconds=chosen.keep_seconds,
        return_after_seconds=chosen.return_after,
        record_dir=chosen.record,
        tls_cert_file=chosen.tls_cert_file,
        tls_key_file=chosen.tls_key_file,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kvtune_agent", description="Run one cache agent.")
    parser.add_argument("--name", required=True, help="name in reports and metrics")
    parser.add_argument("--state-dir", required=True, type=Path, help="directory that this agent alone uses")
    parser.add_argument("--token-file", required=True, type=Path, help="file with the bearer token of writes")
    parser.add_argument("--cache-ttl", required=True, help="start configuration, such as 30s")
    parser.add_argument("--eviction-ratio", required=True, type=float, help="such as 0.3")
    parser.add_argument("--host-memory", required=True, help="such as 57Gi")
    parser.add_argument("--eviction-policy", default=None, help="such as LRU (ReuseAware)")
    parser.add_argument("--store-threshold", default=None, type=int, help="store what came that often (1)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", default=0, type=int, help="0: one that is free, written to STATE_DIR/port")
    parser.add_argument("--engine", default="replay", choices=ENGINES)
    parser.add_argument("--preset", default="h100-llama8b", choices=sorted(PRESETS))
    parser.add_argument("--origin", default=0.0, type=float, help="unix time at which a scaled clock starts")
    parser.add_argument("--speed", default=1.0, type=float, help="engine seconds in one wall second")
    parser.add_argument("--keep-seconds", default=None, type=float, help="how long counters are kept")
    parser.add_argument(
        "--return-after", default=None, type=float, help="engine seconds from a fallback to LRU to a return"
    )
    parser.add_argument("--record", default=None, type=Path, help="folder: record what is served there")
    parser.add_argument(
        "--tls-cert-file", default=None, type=Path, help="PEM chain: serve https (restart to renew)"
    )
    parser.add_argument("--tls-key-file", default=None, type=Path, help="PEM key of that certificate")
    return parser


if __name__ == "__main__":
    sys.exit(main())
