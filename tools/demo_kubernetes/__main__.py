"""The commands `python -m tools.demo_kubernetes up` and `... down`, which make calls."""

import argparse
import asyncio
import sys
from pathlib import Path

from tools.controlplane.errors import ControlPlaneError
from tools.demo_kubernetes.hold import hold
from tools.demo_kubernetes.kubectl import KubectlError
from tools.demo_kubernetes.news import PREFIX
from tools.demo_kubernetes.place import Taken, demo_folder, found_place
from tools.demo_kubernetes.story import Failed, Interrupted, run

WITHIN_SECONDS = 1200.0
TAKEN = 3
"""Exit code of a second holder."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.demo_kubernetes", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="run the demo; leaves the cluster up")
    up.add_argument(
        "--within", type=float, default=WITHIN_SECONDS, metavar="SECONDS", help="give up after so long"
    )
    commands.add_parser("down", help="end the demo's cluster")
    holding = commands.add_parser("hold", help="for `up`: hold the cluster in the background")
    holding.add_argument("--folder", type=Path, required=True)
    chosen = parser.parse_args(arguments)
    try:
        match chosen.command:
            case "up":
                return run(say, within_seconds=chosen.within)
            case "hold":
                asyncio.run(hold(chosen.folder))
                return 0
            case _:
                return down()
    except (Failed, KubectlError, ControlPlaneError) as error:
        print(f"{PREFIX}{error}", file=sys.stderr)
        return 1
    except Taken as error:
        print(f"{PREFIX}{error}", file=sys.stderr)
        return TAKEN
    except Interrupted as error:
        print(f"{PREFIX}interrupted: {error}", file=sys.stderr)
        return 130
    except KeyboardInterrupt:
        print(f"{PREFIX}interrupted; `make down` ends what is up", file=sys.stderr)
        return 130


def down() -> int:
    """End the demo's cluster."""
    place = found_place(demo_folder())
    if place is None:
        say("no cluster of the demo is up or starting")
        return 0
    say("ended" if place.stop() else "did not end in time: killed")
    return 0


def say(text: str) -> None:
    """Print at once, even into a pipe."""
    print(f"{PREFIX}{text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
