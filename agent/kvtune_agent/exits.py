"""Exit codes of an agent process, one for each thing that a person has to do."""

from enum import IntEnum

from kvtune_api.errors import Corrupt, KvtuneError, SpecError, Unavailable


class PortUnavailable(Unavailable):
    """Say that the address cannot be listened on."""


class StateUnavailable(Unavailable):
    """Say that the state directory or a file in it cannot be used."""


class CertificateUnavailable(Unavailable):
    """Say that the certificate or its key cannot be used."""


class ExitCode(IntEnum):
    """How an agent process ended."""

    OK = 0
    BUG = 1
    USAGE = 2
    PORT = 3
    STATE_CORRUPT = 4
    STATE_DIR = 5
    CERTIFICATE = 6


def exit_code(error: KvtuneError) -> ExitCode:
    """The exit code of an error that kept an agent from running."""
    match error:
        case SpecError():
            return ExitCode.USAGE
        case PortUnavailable():
            return ExitCode.PORT
        case Corrupt():
            return ExitCode.STATE_CORRUPT
        case StateUnavailable():
            return ExitCode.STATE_DIR
        case CertificateUnavailable():
            return ExitCode.CERTIFICATE
        case _:
            return ExitCode.BUG
