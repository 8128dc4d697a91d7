"""The bearer token that every write needs, read from a file.

Read at every write, so a rotated token counts at once. Without a readable token nothing may be written: never
open."""

import hmac
import logging
import os
import stat
from pathlib import Path

from kvtune_api.errors import Unavailable

log = logging.getLogger(__name__)

TOKEN_BYTES_MAX = 4096


class TokenFile:
    """A file that holds one token on one line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._warned: int | None = None

    def grants(self, authorization: str | None) -> bool:
        """Whether a request's Authorization header carries the token. Raises `Unavailable` as `read` does."""
        token = self.read()
        scheme, _, given = (authorization or "").partition(" ")
        same = hmac.compare_digest(given.strip().encode("latin-1", "replace"), token)
        return same and scheme.lower() == "bearer"

    def read(self) -> bytes:
        """The token. Raises `Unavailable` when the file is missing, empty, too long or not one word."""
        try:
            text = self._bytes().strip()
        except OSError as error:
            raise self._unavailable(f"cannot be read: {error.strerror}") from error
        if not text:
            raise self._unavailable("is empty")
        if len(text) > TOKEN_BYTES_MAX:
            raise self._unavailable(f"holds more than {TOKEN_BYTES_MAX} bytes")
        if len(text.split()) > 1:
            raise self._unavailable("holds more than one word")
        return text

    def _bytes(self) -> bytes:
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise self._unavailable("is not a file")
            self._warn_if_open(status)
            return os.read(descriptor, TOKEN_BYTES_MAX + 1024)
        finally:
            os.close(descriptor)

    def _warn_if_open(self, status: os.stat_result) -> None:
        if status.st_mode & stat.S_IROTH and self._warned != status.st_mtime_ns:
            self._warned = status.st_mtime_ns
            log.warning("token file is readable by everyone", extra={"path": str(self._path)})

    def _unavailable(self, what: str) -> Unavailable:
        return Unavailable(f"token file {self._path} {what}; no write is accepted until it holds a token")
