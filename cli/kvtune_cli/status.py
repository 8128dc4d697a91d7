"""`kvtune status`: what the control plane of a state directory does, and why it waits. Needs no lock."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kvtune_cli import clock
from kvtune_cli.output import say_json
from kvtune_cli.wishes import STATE_DIR, StateDirOption

if TYPE_CHECKING:
    from kvtune_api.experiment import KVCacheExperiment
    from kvtune_api.policy import KVCachePolicy
    from kvtune_operator.eventlog import KeptEvent

DEMO_RUNS = STATE_DIR / "demo"
DEMO_RUNS_SHOWN = 2
EVENTS_SHOWN = 5
WATCH_SECONDS = 2.0
CLEAR_SCREEN = "\033[2J\033[H"


def status(
    state_dir: StateDirOption = STATE_DIR,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show again every 2 seconds until Ctrl-C.")] = False,
) -> None:
    """Show the policy, its phase and why it waits, SLIs, the running experiment and the trials.

    Example: kvtune status --state-dir .kvtune --watch
    """
    while True:
        if watch and not as_json and sys.stdout.isatty():
            sys.stdout.write(CLEAR_SCREEN)
        _once(state_dir, as_json=as_json)
        if not watch:
            return
        clock.sleep(WATCH_SECONDS)


def _once(state_dir: Path, *, as_json: bool) -> None:
    from kvtune_api.errors import Unavailable
    from kvtune_operator.eventlog import read_events
    from kvtune_operator.statedir import StateDir, holder, left_policies, policies

    state = StateDir(state_dir)
    found = policies(state)
    if not found:
        raise Unavailable(f"{state_dir}: holds no policy ({_elsewhere()})")
    who, events = holder(state), read_events(state.events)
    running = {policy.metadata.name: _running(state, policy) for policy in found}
    left = left_policies(state)
    if as_json:
        say_json({**_data(found, running, events, who), "notServed": sorted(left)})
        return
    from kvtune_cli.status_text import print_status

    print_status(found, running, events[-EVENTS_SHOWN:], who, left)


def _elsewhere() -> str:
    """Where a policy may be instead: the directory of `kvtune up`, or of the newest runs of the demo."""
    runs = sorted(path.parent for path in DEMO_RUNS.glob("run-*/state/policies"))[-DEMO_RUNS_SHOWN:]
    found = "".join(f"; of the demo: --state-dir {run}" for run in reversed(runs))
    return f"give the --state-dir of `kvtune up`{found}"


def _running(state: Any, policy: "KVCachePolicy") -> "KVCacheExperiment | None":
    from kvtune_api.experiment import KVCacheExperiment
    from kvtune_operator.storage import read

    name = policy.status.experiment if policy.status else None
    return read(KVCacheExperiment, state.experiment_file(name)) if name else None


def _data(
    policies: "tuple[KVCachePolicy, ...]",
    running: "dict[str, KVCacheExperiment | None]",
    events: "tuple[KeptEvent, ...]",
    who: str | None,
) -> dict[str, Any]:
    from kvtune_api.codec import dump

    experiments = [dump(experiment) for experiment in running.values() if experiment is not None]
    return {
        "controlPlane": who,
        "policies": [dump(policy) for policy in policies],
        "experiments": experiments,
        "events": [dump(event) for event in events],
    }
