"""The `kvtune` command: every subcommand, and the one place where errors become messages and exit codes.

No traceback ever reaches a user unless they ask for it with --debug.
"""

import contextlib
import io
import os
import sys
import tempfile
import traceback
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from kvtune_api.errors import KvtuneError
from kvtune_cli.exits import ExitCode, epilog, exit_code
from kvtune_cli.output import one_line, tell, tell_error
from kvtune_cli.version import show_version

COMMANDS: Mapping[str, str] = {
    "demo": "kvtune_cli.demo.command:demo",
    "up": "kvtune_cli.up:up",
    "operator": "kvtune_cli.operator:operator",
    "agent": "kvtune_cli.agent:agent",
    "validate": "kvtune_cli.validate:validate",
    "status": "kvtune_cli.status:status",
    "try": "kvtune_cli.trying:try_config",
    "approve": "kvtune_cli.wishes:approve",
    "abort": "kvtune_cli.wishes:abort",
    "pause": "kvtune_cli.wishes:pause",
    "resume": "kvtune_cli.wishes:resume",
    "restore": "kvtune_cli.restore:restore",
    "replay": "kvtune_cli.replay:replay",
    "simulate": "kvtune_cli.simulate:simulate",
    "sweep": "kvtune_cli.sweep:sweep",
    "capacity": "kvtune_cli.capacity:capacity",
    "explain": "kvtune_cli.explain:explain",
    "token": "kvtune_cli.token:token",
    "traffic": "kvtune_cli.traffic:traffic",
    "version": "kvtune_cli.version:version",
    "trace": "kvtune_cli.trace:trace",
}
"""Every subcommand, in the order of `kvtune --help`: its module, imported when it is wanted, and function."""

GROUPS = frozenset({"trace"})
"""Those whose function makes a group of commands."""


def build(commands: Iterable[str] = COMMANDS) -> typer.Typer:
    """The application with every subcommand, or some of them."""
    app = typer.Typer(
        name="kvtune",
        help="Tune the KV caches of LLM fleets by valid online experiments.",
        epilog=epilog(),
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_global_options)
    for name in commands:
        module, _, function = COMMANDS[name].partition(":")
        command = getattr(import_module(module), function)
        if name in GROUPS:
            app.add_typer(command(), name=name)
        else:
            app.command(name)(command)
    return app


def _wanted(args: Sequence[str]) -> Iterable[str]:
    """The one subcommand that a command line begins with, or all where it is not known by its first word."""
    return COMMANDS if not args or args[0] not in COMMANDS else (args[0],)


def _global_options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an unknown error.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Tune the KV caches of LLM fleets by valid online experiments.

    Example: kvtune validate -f examples/chat.yaml
    """


def run(args: Sequence[str], app: typer.Typer | None = None) -> int:
    """Run one command line, of kvtune unless another application is given, and return its exit code."""
    try:
        (app or build(_wanted(args)))(args=list(args), prog_name="kvtune")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else ExitCode.OK
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except KvtuneError as error:
        tell_error(error)
        return exit_code(error)
    except BrokenPipeError:
        return _reader_left()
    except OSError as error:
        if error.filename is not None:
            return _tell_bug(error, debug="--debug" in args)
        return _cannot_write(error)
    except Exception as error:  # noqa: BLE001  # the last line of defence: a bug, told in one line
        return _tell_bug(error, debug="--debug" in args)
    return ExitCode.OK


def _reader_left() -> int:
    """Whoever read our output has seen enough (`kvtune status | head -1`); nothing more is written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.OK


def _cannot_write(error: OSError) -> int:
    """Standard output cannot be written to (a full disk behind it)."""
    reason = error.strerror or str(error)
    with contextlib.suppress(OSError):
        tell(f"kvtune: writing the result failed: {reason}")
    with contextlib.suppress(OSError):
        _reader_left()
    return ExitCode.UNAVAILABLE


def _usable_streams() -> None:
    """Write whatever the terminal's character set is, and to nowhere where a stream was closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # kept until the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main() -> None:
    """Entry point of the installed command."""
    _usable_streams()
    sys.exit(run(sys.argv[1:]))


def _tell_bug(error: Exception, *, debug: bool) -> int:
    text = "".join(traceback.format_exception(error))
    if debug:
        tell(text.rstrip())
        where = "see above"
    else:
        where = f"details in {_kept(text)}"
    tell(f"kvtune: this is a bug: {type(error).__name__}: {one_line(str(error))[:200]} ({where})")
    return ExitCode.BUG


def _kept(text: str) -> str:
    """Keep a traceback in a file of its own; name the file."""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="kvtune-bug-", suffix=".txt", delete=False) as file:
            file.write(text)
            return str(Path(file.name))
    except OSError as error:
        return f"no file ({error.strerror or error}); run again with --debug"
