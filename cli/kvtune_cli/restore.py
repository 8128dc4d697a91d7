"""`kvtune restore`: let agents run their eviction policy again after a fallback to LRU."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvtune_cli.output import say, say_json
from kvtune_cli.token import TOKEN_FILE
from kvtune_cli.wishes import STATE_DIR, JsonOption, StateDirOption, leave_wish

if TYPE_CHECKING:
    from kvtune_operator.restoring import Restored

SCHEMES = ("http://", "https://")


def restore(
    target: Annotated[
        str,
        typer.Argument(help="An agent's address, or the name of a policy: all its agents.", metavar="TARGET"),
    ],
    state_dir: StateDirOption = STATE_DIR,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="Token of the agent; default STATE_DIR/token.")
    ] = None,
    ca_file: Annotated[Path | None, typer.Option("--ca-file", help="Authorities for an https agent.")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Send the token over plain http to another machine, too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Let agents that fell back to LRU run the eviction policy that they were asked to run.

    Example: kvtune restore http://127.0.0.1:9001

    With the name of a policy the control plane of the state directory does it, at its next step.

    In a cluster: kubectl annotate kvp NAME kvtune.dev/restore=all
    """
    if not target.lower().startswith(SCHEMES):
        _known(state_dir, target)
        effect = "every agent that fell back to LRU runs its eviction policy again"
        leave_wish("restore", "", state_dir, target, effect, as_json)
        return
    import asyncio

    from kvtune_operator.restoring import restore_agent

    token = token_file or state_dir / TOKEN_FILE.name
    done = asyncio.run(restore_agent(target, token, ca_file=ca_file, insecure=insecure))
    if as_json:
        ended = None if done.ended is None else done.ended.reason
        say_json({"agent": done.agent, "evictionPolicy": done.policy, "endedFallback": ended})
    else:
        say(_told(done))


def _known(state_dir: Path, policy: str) -> None:
    from kvtune_operator.statedir import StateDir, policies

    names = [one.metadata.name for one in policies(StateDir(state_dir))]
    if names and policy not in names:
        text = f"{policy}: is neither an address such as http://127.0.0.1:9001 nor a policy of {state_dir}"
        raise typer.BadParameter(f"{text} ({', '.join(names)})")


def _told(done: "Restored") -> str:
    if done.ended is None:
        return f"{done.agent} runs {done.policy}, as it was asked to: nothing to restore"
    return f"{done.agent} runs {done.policy} again (it ran LRU: {done.ended.reason}: {done.ended.message})"
