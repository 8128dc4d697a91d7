"""`kvtune up`: run the control plane for one policy on this machine."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvtune_cli.clock import ORIGIN_HELP
from kvtune_cli.exits import ExitCode
from kvtune_cli.output import one_line, tell
from kvtune_cli.token import TOKEN_FILE
from kvtune_cli.wishes import STATE_DIR, StateDirOption

if TYPE_CHECKING:
    from kvtune_api.policy import KVCachePolicy
    from kvtune_operator.settings import Settings

STOPPING = "stopping: agents return to their incumbents first (again to stop at once)"


def up(
    file: Annotated[Path, typer.Option("--file", "-f", help="Policy; read again when it changes.")],
    agents: Annotated[
        list[str] | None,
        typer.Option("--agents", help="Addresses, comma-separated, for the policy's."),
    ] = None,
    state_dir: StateDirOption = STATE_DIR,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="Token of the agents; default STATE_DIR/token.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Send the token over plain http to other machines, too.")
    ] = False,
    ca_file: Annotated[Path | None, typer.Option("--ca-file", help="Authorities for https agents.")] = None,
    tick: Annotated[float, typer.Option("--tick", help="Seconds between steps (scaled).")] = 5.0,
    http_timeout: Annotated[float, typer.Option("--http-timeout", help="Seconds for an answer.")] = 2.0,
    origin: Annotated[float, typer.Option("--origin", help=ORIGIN_HELP)] = 0.0,
    speed: Annotated[float, typer.Option("--speed", help="Scaled seconds per second.")] = 1.0,
    ends_at: Annotated[
        datetime | None, typer.Option("--ends-at", help="Scaled UTC time by which experiments must end.")
    ] = None,
    health_host: Annotated[str, typer.Option("--health-host", help="Address of /healthz.")] = "127.0.0.1",
    health_port: Annotated[int, typer.Option("--health-port", help="0: a free one; -1: none.")] = 0,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "info",
) -> None:
    """Run the control plane: experiments on the agents until Ctrl-C, which restores every incumbent.

    Example: kvtune up -f examples/chat.yaml --agents http://127.0.0.1:9001,http://127.0.0.1:9002
    """
    import asyncio
    from datetime import UTC

    from kvtune_cli.logs import log_to_stderr
    from kvtune_cli.policies import policy_of
    from kvtune_operator.settings import Settings

    _check_level(log_level)
    policy = policy_of(file)
    settings = Settings(
        state_dir=state_dir,
        token_file=_token_file(token_file, state_dir),
        agents=_addresses(agents),
        policy_file=file,
        ca_file=ca_file,
        origin=origin,
        speed=speed,
        tick_seconds=tick,
        http_timeout_seconds=http_timeout,
        insecure=insecure,
        ends_at=ends_at.replace(tzinfo=ends_at.tzinfo or UTC) if ends_at else None,
        health_host=health_host,
        health_port=None if health_port == -1 else health_port,
    )
    _introduce(policy, settings)
    log_to_stderr(log_level)
    raise typer.Exit(asyncio.run(_run(settings, policy)))


async def _run(settings: "Settings", policy: "KVCachePolicy") -> int:
    import asyncio
    import signal

    from kvtune_cli.signals import StopSignals
    from kvtune_operator.standalone import run_standalone

    stop = asyncio.Event()
    signals = StopSignals(stop, tell, text=STOPPING)
    signals.install()
    try:
        result = await run_standalone(settings, policy, stop, say=tell)
    except asyncio.CancelledError:
        tell("stopped before all agents confirmed; candidates end with their lease")
        return ExitCode.INTERRUPTED
    if result == ExitCode.FENCED:
        return ExitCode.FENCED
    return ExitCode.INTERRUPTED if signals.first is signal.SIGINT else ExitCode.OK


def _introduce(policy: "KVCachePolicy", settings: "Settings") -> None:
    from kvtune_operator.advice import advice

    for warning in advice(policy):
        tell(f"warning: {one_line(str(warning))}")
    count = len(settings.agents or policy.spec.selector.addresses)
    name, mode = policy.metadata.name, policy.spec.mode
    tell(f"policy {name} (mode {mode}) on {count} agents; state in {settings.state_dir}; Ctrl-C stops")


def _addresses(agents: list[str] | None) -> tuple[str, ...]:
    parts = [part.strip() for text in agents or () for part in text.split(",")]
    return tuple(part for part in parts if part)


def _token_file(chosen: Path | None, state_dir: Path) -> Path:
    from kvtune_api.errors import Unavailable

    path = chosen or state_dir / TOKEN_FILE.name
    if not path.exists():
        how = f"`kvtune token --file {path}` makes one; start the agents with the same file"
        raise Unavailable(f"{path}: there is no token file ({how})")
    return path


def _check_level(level: str) -> None:
    if level.lower() not in ("debug", "info", "warning", "error"):
        raise typer.BadParameter(f"{level!r} is not debug, info, warning or error", param_hint="--log-level")
