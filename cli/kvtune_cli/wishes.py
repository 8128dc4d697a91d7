"""`kvtune abort|pause|resume|approve`: leave a wish in the inbox of a running control plane."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvtune_cli.clock import unix_milliseconds
from kvtune_cli.output import say, say_json

if TYPE_CHECKING:
    from kvtune_api.experiment import KVCacheExperiment
    from kvtune_api.knobs import CacheConfig
    from kvtune_operator.statedir import StateDir

StateDirOption = Annotated[
    Path, typer.Option("--state-dir", envvar="KVTUNE_STATE_DIR", help="State directory of `kvtune up`.")
]
PolicyOption = Annotated[
    str | None, typer.Option("--policy", help="Policy, where several share a directory.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
STATE_DIR = Path(".kvtune")


def abort(
    experiment: Annotated[
        str, typer.Argument(help="Name of the experiment; without it, the running one.")
    ] = "",
    state_dir: StateDirOption = STATE_DIR,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> None:
    """End the running experiment at the next step; every agent returns to its incumbent.

    Example: kvtune abort chat-00003
    """
    _running(state_dir, experiment)
    effect = "the running experiment ends as Aborted(User), its agents return to the incumbent"
    leave_wish("abort", experiment, state_dir, policy, effect, as_json)


def pause(
    state_dir: StateDirOption = STATE_DIR, policy: PolicyOption = None, as_json: JsonOption = False
) -> None:
    """Stop experimenting: a running experiment is aborted, no other starts until `kvtune resume`.

    Example: kvtune pause --state-dir .kvtune
    """
    leave_wish("pause", "", state_dir, policy, "experiments stop, all agents keep the incumbent", as_json)


def resume(
    state_dir: StateDirOption = STATE_DIR, policy: PolicyOption = None, as_json: JsonOption = False
) -> None:
    """Go on after `kvtune pause`, or after a guardrail has paused the policy.

    Example: kvtune resume --state-dir .kvtune
    """
    leave_wish("resume", "", state_dir, policy, "the next experiment may start", as_json)


def approve(
    experiment: Annotated[str, typer.Argument(help="Name of the experiment that waits for approval.")],
    state_dir: StateDirOption = STATE_DIR,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a winner that waits for approval (mode Recommend) be promoted to all agents.

    Example: kvtune approve chat-00003
    """
    from kvtune_api.names import Phase

    found = _running(state_dir, experiment)
    if found is not None and found.status.phase is not Phase.AWAITING_APPROVAL:
        raise typer.BadParameter(f"{experiment} is {found.status.phase}, it does not wait for approval")
    effect = "its candidate is promoted to all agents and then watched"
    leave_wish("approve", experiment, state_dir, policy, effect, as_json)


def _running(state_dir: Path, name: str) -> "KVCacheExperiment | None":
    """The experiment of that name; refuse unknown and ended ones."""
    from kvtune_operator.statedir import StateDir, experiments

    if not name:
        return None
    _holder(StateDir(state_dir))
    known = {item.metadata.name: item for item in experiments(StateDir(state_dir))}
    if name not in known:
        newest = ", ".join(list(known)[-3:]) or "none yet"
        raise typer.BadParameter(f"{name}: there is no such experiment (newest: {newest})")
    status = known[name].status
    if status.outcome is not None:
        raise typer.BadParameter(f"{name} has ended: {status.outcome}({status.reason})")
    return known[name]


def _holder(state: "StateDir") -> str:
    from kvtune_api.errors import Unavailable
    from kvtune_operator.statedir import holder

    found = holder(state)
    if found is None:
        raise Unavailable(f"{state.path}: no control plane runs on this directory (`kvtune up` starts one)")
    return found


def leave_wish(
    verb: str,
    target: str,
    state_dir: Path,
    policy: str | None,
    effect: str,
    as_json: bool,
    *,
    config: "CacheConfig | None" = None,
) -> None:
    """Leave a wish in the inbox and say what will happen."""
    from kvtune_operator.statedir import StateDir, Wish, leave
    from kvtune_tuner.model import Verb

    state = StateDir(state_dir)
    who = _holder(state)
    wish = Wish(verb=Verb(verb), target=target, policy=policy, config=config)
    path = leave(state, wish, unix_milliseconds=unix_milliseconds())
    if as_json:
        say_json({"verb": verb, "target": target or None, "controlPlane": who, "file": str(path)})
    else:
        say(f"asked the control plane ({who}) to {verb} {target}".rstrip() + f": at its next step {effect}")
