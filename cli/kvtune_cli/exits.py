"""Exit codes of every command, in one table, and which error leads to which."""

from enum import IntEnum

from kvtune_api.errors import Conflict, Corrupt, KvtuneError, SpecError, Unavailable


class ExitCode(IntEnum):
    """What a command's exit code says."""

    OK = 0
    DIFFERENT = 1
    USAGE = 2
    INVALID = 3
    UNAVAILABLE = 4
    LOCKED = 5
    CORRUPT = 6
    FENCED = 7
    BUG = 70
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.DIFFERENT: "replay found a difference, or an operator lost its lease",
    ExitCode.USAGE: "the command line is wrong",
    ExitCode.INVALID: "a policy or a setting is invalid (every problem is printed)",
    ExitCode.UNAVAILABLE: "a disk, a file (also -f), a port or a control plane is not there",
    ExitCode.LOCKED: "another control plane holds the state directory",
    ExitCode.CORRUPT: "a stored file is damaged (the line is printed)",
    ExitCode.FENCED: "a newer control plane has taken over the agents",
    ExitCode.BUG: "a bug in kvtune (a file with the details is named)",
    ExitCode.INTERRUPTED: "interrupted; incumbents were restored first",
}


def epilog() -> str:
    """The table for `kvtune --help`."""
    rows = [f"{code.value:>3}  {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join(["Exit codes:", *rows])


def exit_code(error: KvtuneError) -> ExitCode:
    """The exit code of an error that kvtune raises on purpose."""
    match error:
        case SpecError():
            return ExitCode.INVALID
        case Corrupt():
            return ExitCode.CORRUPT
        case Unavailable() | Conflict():
            return ExitCode.UNAVAILABLE
    return ExitCode.LOCKED if type(error).__name__ == "Locked" else ExitCode.UNAVAILABLE
