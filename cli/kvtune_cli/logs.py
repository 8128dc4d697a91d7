"""Log lines for a terminal: time, level, event and its fields."""

import logging
import sys

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class FieldsFormatter(logging.Formatter):
    """Show the fields that a line carries, after its text."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """The line with its fields."""
        fields = [f"{name}={value}" for name, value in vars(record).items() if name not in _STANDARD]
        return " ".join([super().format(record), *fields])


def log_to_stderr(level: str) -> None:
    """Send kvtune's log lines of this level and above to stderr; libraries only warn."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FieldsFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for room in ("kvtune_operator", "kvtune_agent", "kvtune_lab"):
        logging.getLogger(room).setLevel(level.upper())
