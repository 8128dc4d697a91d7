"""Record what a replay agent serves, for the laboratory: the format is that of kvtune_api.recordings.

Called by agent.py. Recording must never disturb serving: what cannot be written ends the recording with one
line in the log.
"""

import logging
from dataclasses import replace
from pathlib import Path

from kvtune_agent.engines.batches import ReplayRequest
from kvtune_agent.exits import StateUnavailable
from kvtune_api.hints import Hint
from kvtune_api.recordings import Recorded, heading, line

log = logging.getLogger(__name__)

BYTES_MAX = 2**30
"""Some two to ten million requests; then the recording ends."""


class Recorder:
    """A file of its own for each process, `FOLDER/AGENT-SECONDS.jsonl`; seconds are those of the start."""

    def __init__(
        self, folder: Path, agent: str, *, started_at: float, block_tokens: int, bytes_max: int = BYTES_MAX
    ) -> None:
        """Make the file. Raises `StateUnavailable`."""
        self.path = folder / f"{agent}-{started_at:.0f}.jsonl"
        self._agent = agent
        self._block_tokens = block_tokens
        self._after_s = 0.0
        self._bytes = 0
        self._bytes_max = bytes_max
        self._unfit = False
        self._open = True
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("x", encoding="ascii")
            self._write(heading(block_tokens))
        except OSError as error:
            raise StateUnavailable(f"recording {self.path} cannot be made: {error.strerror}") from error

    def served(self, request: ReplayRequest) -> None:
        """Append a request of a batch that was served."""
        self.take(_recorded(request))

    def take(self, request: Recorded) -> None:
        """Append a request."""
        if not self._open:
            return
        try:
            text = line(request, block_tokens=self._block_tokens, after_s=self._after_s)
        except ValueError as error:
            self._leave_out(str(error))
            return
        if self._bytes + len(text) > self._bytes_max:
            self._end(f"it would hold more than {self._bytes_max} bytes")
            return
        try:
            self._write(text)
        except OSError as error:
            self._end(error.strerror or str(error))
            return
        self._after_s = request.arrival_s

    def discard(self) -> None:
        """Take the file away, of an agent that does not start."""
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Write what is left; afterwards nothing is recorded."""
        if self._open:
            self._open = False
            try:
                self._file.close()
            except OSError as error:
                self._log("recording has no end", error.strerror or str(error))

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._bytes += len(text)

    def _leave_out(self, why: str) -> None:
        """Say once that requests are left out that the format has no place for."""
        if not self._unfit:
            self._unfit = True
            self._log("request not recorded", why)

    def _end(self, why: str) -> None:
        self._log("recording ended", why)
        self.close()

    def _log(self, what: str, why: str) -> None:
        log.warning(what, extra={"agent": self._agent, "file": str(self.path), "why": why})


def _recorded(request: ReplayRequest) -> Recorded:
    """A request as the format has it: its kind apart from what else the hint says."""
    arrival, root, prompt, output, blocks, hint = request
    kind = hint.request_kind if hint is not None else 0
    told = replace(hint, request_kind=0) if hint is not None else Hint()
    return Recorded(
        arrival_s=arrival,
        blocks=blocks,
        prompt_tokens=prompt,
        output_tokens=output,
        session=str(root),
        kind=str(kind) if kind else None,
        hint=told if told.said() else None,
    )
