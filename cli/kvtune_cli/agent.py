"""`kvtune agent`: run one cache agent on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from kvtune_cli.clock import ORIGIN_HELP
from kvtune_cli.knob_options import config_from_options
from kvtune_cli.output import say
from kvtune_cli.token import TOKEN_FILE


def agent(
    name: Annotated[str, typer.Option("--name", help="Its name in reports and metrics.")],
    state_dir: Annotated[Path, typer.Option("--state-dir", help="Directory that this agent alone uses.")],
    token_file: Annotated[Path, typer.Option("--token-file", help="File with the write token.")] = TOKEN_FILE,
    cache_ttl: Annotated[str, typer.Option("--cache-ttl", help="Start configuration: TTL.")] = "60s",
    eviction_ratio: Annotated[float, typer.Option("--eviction-ratio", help="Start configuration.")] = 0.1,
    host_memory: Annotated[str, typer.Option("--host-memory", help="Start configuration: size.")] = "64Gi",
    eviction_policy: Annotated[
        str | None, typer.Option("--eviction-policy", help="Start configuration, such as LRU. [ReuseAware]")
    ] = None,
    store_threshold: Annotated[
        int | None,
        typer.Option("--store-threshold", help="Start configuration: store from so many uses. [1]"),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="0: a free one, written to STATE_DIR/port.")] = 0,
    engine: Annotated[str, typer.Option("--engine", help="replay.")] = "replay",
    preset: Annotated[str, typer.Option("--preset", help="Constants of the replay engine.")] = "h100-llama8b",
    origin: Annotated[float, typer.Option("--origin", help=ORIGIN_HELP)] = 0.0,
    speed: Annotated[float, typer.Option("--speed", help="Engine seconds per second.")] = 1.0,
    keep_seconds: Annotated[
        float | None, typer.Option("--keep-seconds", help="Engine seconds for which counters are kept.")
    ] = None,
    return_after: Annotated[
        float | None,
        typer.Option("--return-after", help="Engine seconds without a cause that end a fallback to LRU."),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record", help="Folder: record what is served there, for `kvtune simulate` and others."
        ),
    ] = None,
    tls_cert_file: Annotated[
        Path | None, typer.Option("--tls-cert-file", help="PEM chain: serve https. Restart to renew it.")
    ] = None,
    tls_key_file: Annotated[
        Path | None, typer.Option("--tls-key-file", help="PEM key of that certificate.")
    ] = None,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "info",
) -> None:
    """Run one cache agent (replay engine) until SIGTERM or Ctrl-C.

    Example: kvtune agent --name a1 --state-dir .kvtune/a1 --port 9001 --cache-ttl 30s
    """
    import asyncio

    from kvtune_agent.serve import run_agent
    from kvtune_agent.settings import AgentSettings
    from kvtune_cli.logs import log_to_stderr

    settings = AgentSettings(
        name=name,
        config=config_from_options(cache_ttl, eviction_ratio, host_memory, eviction_policy, store_threshold),
        state_dir=state_dir,
        token_file=token_file,
        host=host,
        port=port,
        engine=engine,
        preset=preset,
        origin=origin,
        speed=speed,
        keep_seconds=keep_seconds,
        return_after_seconds=return_after,
        record_dir=record,
        tls_cert_file=tls_cert_file,
        tls_key_file=tls_key_file,
    )
    log_to_stderr(log_level)
    asyncio.run(run_agent(settings, listening=lambda url: say(f"kvtune agent {name} listens on {url}")))
