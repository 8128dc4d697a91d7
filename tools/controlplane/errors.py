"""The errors of the test ground: each message says what to do.

ControlPlaneError
+-- NotBuilt       the binaries are not there, or cannot be built: what is missing, and the command to type
+-- NotStarted     a process did not become ready: which one, and the end of its log
+-- Answered       the API server refused a request: status, reason and message
"""


class ControlPlaneError(Exception):
    """Any error that this package raises on purpose."""


class NotBuilt(ControlPlaneError):
    """The binaries are not there."""


class NotStarted(ControlPlaneError):
    """A process ended, or did not become ready in time."""


class Answered(ControlPlaneError):
    """The API server answered with an error: its HTTP status is `status`, its machine reason `reason`."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
