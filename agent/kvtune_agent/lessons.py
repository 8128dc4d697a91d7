"""Keep what an eviction policy has learned over restarts: a file of the agent's state directory.

Called by agent.py and app.py. It is worth little beside the incumbent: a file that cannot be read, written or
used costs one line in the log and a cold start, never the agent.
"""

import asyncio
import json
import logging
import threading
from collections.abc import Mapping
from pathlib import Path

from kvtune_agent.clock import Clock
from kvtune_agent.engine import Engine
from kvtune_agent.exits import StateUnavailable
from kvtune_agent.incumbent import write_atomically

log = logging.getLogger(__name__)

FILE_NAME = "lessons.json"
BYTES_MAX = 4 * 1024 * 1024
"""1,024 classes of 62 numbers, the most that are told apart, take a third of it."""

SAVE_SECONDS = 60.0
"""Wall seconds between two savings: so much is lost by a kill."""

BLOCK_TOKENS = "blockTokens"
LESSONS = "lessons"


class LessonsFile:
    """The file, and what it holds."""

    def __init__(self, agent: str, folder: Path, engine: Engine) -> None:
        self._agent = agent
        self._path = folder / FILE_NAME
        self._engine = engine
        self._saved: Mapping[str, object] | None = None
        self._writing = threading.Lock()

    def teach(self) -> None:
        """Give an engine that has served nothing yet what was kept; where that cannot be, say why."""
        try:
            kept = self._read()
            if kept is None:
                return
            self._engine.teach(kept)
        except (OSError, ValueError, ArithmeticError, RecursionError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)[:200]
            fields = {"agent": self._agent, "file": str(self._path), "why": why}
            log.warning("lessons of an earlier process refused, cold start", extra=fields)
            return
        self._saved = kept
        log.info("lessons of an earlier process taken", extra={"agent": self._agent})

    def due(self) -> str | None:
        """What is to be written; None where nothing has been learned since."""
        try:
            lessons = self._engine.lessons()
        except (ArithmeticError, LookupError, ValueError) as error:  # of a policy that has gone wrong
            self._not_kept(str(error)[:200])
            return None
        if lessons is None or lessons == self._saved:
            return None
        self._saved = lessons
        try:
            text = json.dumps({BLOCK_TOKENS: self._block_tokens(), LESSONS: lessons}, allow_nan=False)
        except ValueError as error:
            self._not_kept(str(error))
            return None
        if len(text) > BYTES_MAX:
            self._not_kept(f"{len(text)} bytes are more than {BYTES_MAX}")
            return None
        return text

    def write(self, text: str) -> None:
        """Replace the file; what fails is logged, and the old file stands."""
        try:
            with self._writing:
                write_atomically(self._path, text)
        except StateUnavailable as error:
            self._not_kept(str(error))

    def _not_kept(self, why: str) -> None:
        log.warning("lessons not kept", extra={"agent": self._agent, "why": why})

    def _read(self) -> Mapping[str, object] | None:
        """The lessons of the file; None without one. Raises OSError, and ValueError for what is none."""
        try:
            with self._path.open("rb") as file:
                text = file.read(BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        if len(text) > BYTES_MAX:
            raise ValueError(f"more than {BYTES_MAX} bytes")
        held = json.loads(text)
        if not isinstance(held, dict) or not isinstance(held.get(LESSONS), dict):
            raise ValueError(f"{LESSONS}: is missing or not an object")
        if held.get(BLOCK_TOKENS) != self._block_tokens():
            raise ValueError(f"{BLOCK_TOKENS}: {held.get(BLOCK_TOKENS)!r} is not {self._block_tokens()}")
        return held[LESSONS]  # type: ignore[no-any-return]  # a dict, as was checked

    def _block_tokens(self) -> int | None:
        """Classes count blocks, so that they mean something for blocks of one size."""
        geometry = self._engine.geometry
        return geometry.block_tokens if geometry is not None else None


async def keep_learned(file: LessonsFile, clock: Clock) -> None:
    """Write what has been learned now and then, until cancelled, and then once more."""
    try:
        while True:
            await clock.sleep(SAVE_SECONDS)
            if (text := file.due()) is not None:
                await asyncio.to_thread(file.write, text)
    finally:
        if (text := file.due()) is not None:
            file.write(text)
