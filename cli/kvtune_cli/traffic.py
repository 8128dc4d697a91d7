"""`kvtune traffic`: send generated chat to replay agents, in a cluster or by address, until stopped."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvtune_cli.exits import ExitCode
from kvtune_cli.output import tell
from kvtune_cli.token import TOKEN_FILE

if TYPE_CHECKING:
    import asyncio
    import ssl

    from kvtune_lab.live import LiveConfig, LiveTally, Members

SETTLE_SECONDS = 3.0
"""At the start agents come one by one; nothing is sent until so long nobody came or left."""

LOOK_SECONDS = 1.0
SAY_SECONDS = 30.0

OPTIONS = {
    "requests_per_second": "--rate",
    "batch_seconds": "--batch",
    "haste": "--haste",
    "hinted_share": "--hinted-share",
}
"""The option of each setting."""


def traffic(
    agents: Annotated[
        list[str] | None, typer.Option("--agents", help="Addresses of agents, comma-separated.")
    ] = None,
    selector: Annotated[
        str | None, typer.Option("--selector", "-l", help="Instead: labels of the agents' pods.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Of the pods; default: the current one.")
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option("--kubeconfig", help="Default: KUBECONFIG, the pod's own, or ~/.kube/config."),
    ] = None,
    token_file: Annotated[Path, typer.Option("--token-file", help="Token of the agents.")] = TOKEN_FILE,
    ca_file: Annotated[Path | None, typer.Option("--ca-file", help="Authorities for https agents.")] = None,
    rate: Annotated[float, typer.Option("--rate", help="Requests in a second for each agent.")] = 5.0,
    batch: Annotated[float, typer.Option("--batch", help="Seconds of requests in one post.")] = 1.0,
    haste: Annotated[
        float, typer.Option("--haste", help="Think times this many times shorter, for short demos.")
    ] = 1.0,
    seed: Annotated[int, typer.Option("--seed", help="Other sessions for another number.")] = 1,
    hinted_share: Annotated[
        float,
        typer.Option("--hinted-share", help="Share of requests that tell when their session returns."),
    ] = 0.0,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "info",
) -> None:
    """Send chat sessions to replay agents in real time until Ctrl-C; follows agents that come and go.

    Example: kvtune traffic --selector app.kubernetes.io/name=kvtune-agent --namespace chat --rate 5
    """
    import asyncio

    from kvtune_api.errors import Problem, SpecError
    from kvtune_cli.logs import log_to_stderr
    from kvtune_lab.live import LiveConfig
    from kvtune_lab.posting import PostingConfig

    addresses = [part.strip() for text in agents or () for part in text.split(",") if part.strip()]
    if bool(addresses) == bool(selector):
        raise typer.BadParameter("give either --agents or --selector")
    try:
        posting = PostingConfig(token_file=token_file)
        config = LiveConfig(
            posting=posting,
            requests_per_second=rate,
            batch_seconds=batch,
            seed=seed,
            haste=haste,
            hinted_share=hinted_share,
        )
    except ValueError as error:
        name, _, said = str(error).partition(": ")
        raise SpecError(Problem(OPTIONS.get(name, name), said)) from error
    log_to_stderr(log_level)
    if selector:
        code = asyncio.run(_in_cluster(config, selector, namespace, kubeconfig, ca_file))
    else:
        code = asyncio.run(_run(config, lambda: addresses, ca_file))
    raise typer.Exit(code)


async def _in_cluster(
    config: "LiveConfig", selector: str, namespace: str | None, kubeconfig: Path | None, ca_file: Path | None
) -> int:
    from kvtune_cli.agent_pods import AgentPods

    scheme = "https" if ca_file is not None else "http"
    async with AgentPods(selector, namespace=namespace, kubeconfig=kubeconfig, scheme=scheme) as pods:
        tell(f"looking for agents by {selector} in namespace {pods.namespace}")
        return await _run(config, pods.addresses, ca_file)


async def _run(config: "LiveConfig", members: "Members", ca_file: Path | None) -> int:
    import asyncio
    import signal

    import httpx

    from kvtune_cli.clock import unix_seconds
    from kvtune_cli.signals import StopSignals
    from kvtune_lab.clock import ScaledClock
    from kvtune_lab.live import LiveTally, run_live

    stop, tally = asyncio.Event(), LiveTally()
    signals = StopSignals(stop, tell, text="stopping")
    signals.install()
    verify = _authorities(ca_file)
    timeout = httpx.Timeout(config.posting.timeout_wall_seconds)
    saying = asyncio.create_task(_say_now_and_then(members, tally))
    try:
        async with httpx.AsyncClient(timeout=timeout, verify=verify, trust_env=False) as client:
            await _settled(members, stop)
            await run_live(
                config, members, ScaledClock(origin_unix_s=unix_seconds()), stop, tally, client=client
            )
    finally:
        saying.cancel()
        await asyncio.gather(saying, return_exceptions=True)
        tell(summary(members(), tally))
    return ExitCode.INTERRUPTED if signals.first is signal.SIGINT else ExitCode.OK


async def _settled(members: "Members", stop: "asyncio.Event") -> None:
    """Wait until there are agents and nobody comes or leaves for a while."""
    import asyncio
    from contextlib import suppress

    from kvtune_cli.clock import monotonic

    before: Sequence[str] = ()
    since = monotonic()
    while not stop.is_set():
        now = members()
        if now != before:
            before, since = now, monotonic()
        if now and monotonic() - since >= SETTLE_SECONDS:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), LOOK_SECONDS)


async def _say_now_and_then(members: "Members", tally: "LiveTally") -> None:
    import asyncio

    while True:
        await asyncio.sleep(SAY_SECONDS)
        tell(summary(members(), tally))


def summary(members: Sequence[str], tally: "LiveTally") -> str:
    """What became of all requests, in one line."""
    posted, refused, skipped = (
        tally.total(of) for of in ("posted_requests", "refused_requests", "skipped_requests")
    )
    text = f"{len(members)} agents; {posted} requests sent, {refused} refused, {skipped} skipped"
    if tally.lost_requests:
        text += f", {tally.lost_requests} lost for want of an agent"
    if (refused or skipped) and tally.last_refusal:
        text += f"; last failure: {tally.last_refusal}"
    return text


def _authorities(ca_file: Path | None) -> "ssl.SSLContext | bool":
    import ssl

    from kvtune_api.errors import Unavailable

    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=os.fspath(ca_file))
    except (OSError, ssl.SSLError) as error:
        raise Unavailable(f"{ca_file}: {getattr(error, 'strerror', None) or error}") from error
