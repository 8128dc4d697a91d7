"""`kvtune version`: which kvtune this is."""

from typing import Annotated

import typer

from kvtune_cli.output import say, say_json


def show_version(asked: bool) -> None:
    """Print the version and end, where `--version` is given."""
    if asked:
        version()
        raise typer.Exit


def version(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Print the version of kvtune, of its API and of Python.

    Example: kvtune version --json
    """
    import platform
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    from kvtune_api.names import API_VERSION

    try:
        number = installed("kvtune")
    except PackageNotFoundError:
        number = "not installed"
    if as_json:
        say_json({"kvtune": number, "api": API_VERSION, "python": platform.python_version()})
    else:
        say(f"kvtune {number} ({API_VERSION}, Python {platform.python_version()})")
