"""Log lines of the operator's process: JSON for collectors, text for people. Set up by its root alone."""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, event, fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= {name: value for name, value in _fields(record).items() if name not in line}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """Time, level, event and fields."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields = (f"{name}={value}" for name, value in _fields(record).items())
        first, *rest = super().format(record).split("\n")
        return "\n".join([" ".join([first, *fields]), *rest])


def log_to_stderr(level: str, *, style: str) -> None:
    """Send our lines of this level and above to stderr, as `json` or `text`; libraries only warn."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    handler.addFilter(_plain)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("kvtune_operator").setLevel(level.upper())


def _plain(record: logging.LogRecord) -> bool:
    """Take tracebacks off kopf's lines: what it meets is the API server's answer, which its text tells.

    That it leaves signals alone is meant so, and not worth a line.
    """
    if record.name.split(".")[0] != "kopf":
        return True
    record.exc_info = record.exc_text = None
    return not record.getMessage().startswith("OS signals are ignored")


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    """What a line carries beside its text; kopf's own references to objects are left out."""
    own = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    return {name: value for name, value in own.items() if not name.startswith("k8s_") and name != "settings"}
