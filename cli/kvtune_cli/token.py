"""`kvtune token`: make the secret that lets a control plane write to its agents."""

import os
from pathlib import Path
from typing import Annotated

import typer

from kvtune_cli.exits import ExitCode
from kvtune_cli.output import say, tell

TOKEN_FILE = Path(".kvtune/token")


def token(
    file: Annotated[Path, typer.Option("--file", help="Where to write it.")] = TOKEN_FILE,
) -> None:
    """Make a token file that only you can read; agents and control plane are then given the same file.

    Example: kvtune token --file .kvtune/token
    """
    import secrets

    from kvtune_api.errors import Unavailable

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        tell(f"kvtune: {file}: exists already and is kept")
        raise typer.Exit(ExitCode.USAGE) from None
    except OSError as error:
        raise Unavailable(f"{file}: {error.strerror or error}") from error
    with os.fdopen(handle, "w", encoding="ascii") as opened:
        opened.write(secrets.token_urlsafe(32) + "\n")
    say(f"wrote {file}")
