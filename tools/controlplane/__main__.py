"""The commands: `python -m tools.controlplane build`, and `… up`, which stays until Ctrl-C."""

import argparse
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.controlplane.build import ensure_built
from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.plane import ControlPlane
from tools.controlplane.share import keep


def say(line: str) -> None:
    """Print one line of progress at once, even into a pipe."""
    print(f"controlplane: {line}", flush=True)


def up(folder: Path) -> None:
    """Start everything in a folder and stay until Ctrl-C or SIGTERM."""
    binaries = ensure_built(say)
    say("starting etcd, the API server, the controllers and the scheduler")
    with ControlPlane(folder, controllers=True, scheduler=True, binaries=binaries) as plane:
        say(f"ready: {plane.url}; Ctrl-C ends it; logs in {folder}")
        print(f'export KUBECONFIG={plane.kubeconfig} PATH="{binaries}:$PATH"', flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        signal.pause()


def main(arguments: list[str] | None = None) -> int:
    """Run one command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.controlplane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build the binaries once into the user's cache")
    starting = commands.add_parser("up", help="start everything, print KUBECONFIG, stay until Ctrl-C")
    starting.add_argument(
        "--folder", type=Path, help="where its data and logs lie (default: a temporary folder)"
    )
    commands.add_parser("keep", help="for tests: hold a control plane while it has users").add_argument(
        "folder", type=Path
    )
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "build":
            say(f"built: {ensure_built(say)}")
        elif chosen.command == "keep":
            return keep(chosen.folder)
        elif chosen.folder is not None:
            up(chosen.folder.absolute())
        else:
            with TemporaryDirectory(prefix="kvtune-controlplane-") as folder:
                up(Path(folder))
    except ControlPlaneError as error:
        print(f"controlplane: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130 if chosen.command == "build" else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
