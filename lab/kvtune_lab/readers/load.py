"""Open a trace of any format: what it can tell, its requests with their blocks, or its arrivals.

Called by every command that takes a trace. Formats are told by content (detect.py), `.gz` and `.zst` by their
first bytes.

Errors: TraceError; its ArrivalsOnly where blocks are wanted of a trace without any; OSError where a file
cannot be read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from kvtune_lab.readers import agentic, bailian, kv_events, mooncake, ragpulse
from kvtune_lab.readers.arrivals import load_azure, load_servegen
from kvtune_lab.readers.detect import detect
from kvtune_lab.readers.errors import ArrivalsOnly, Skips, TraceError
from kvtune_lab.readers.loaded import LACKS, Arrivals, ClientRates, Format, Loaded
from kvtune_lab.readers.source import Progress, Source


def _load_recording(source: Source) -> Loaded:
    """Import what the API's types need only for a recording."""
    from kvtune_lab.readers.recording import load_recording

    return load_recording(source)


_BLOCK_TOKENS: Mapping[Format, int] = MappingProxyType(
    {
        Format.MOONCAKE: mooncake.BLOCK_TOKENS,
        Format.BAILIAN: bailian.BLOCK_TOKENS,
        Format.RAGPULSE: ragpulse.CHUNK_TOKENS,
        Format.AGENTIC: agentic.BLOCK_TOKENS,
    }
)
_LOADERS: Mapping[Format, Callable[[Source], Loaded]] = MappingProxyType(
    {
        Format.MOONCAKE: mooncake.load_mooncake,
        Format.BAILIAN: bailian.load_bailian,
        Format.RAGPULSE: ragpulse.load_ragpulse,
        Format.AGENTIC: agentic.load_agentic,
        Format.KV_EVENTS: kv_events.load_kv_events,
        Format.RECORDING: _load_recording,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A trace whose format is known and which has not been read yet."""

    path: Path
    """The file of requests."""

    format: Format
    block_tokens: int | None
    """Tokens of a full block; None where the file itself says so, or has no blocks."""

    lacks: tuple[str, ...]
    """What it cannot tell of."""

    @property
    def has_blocks(self) -> bool:
        """Whether it can be simulated."""
        return self.format in _LOADERS


def open_trace(path: Path, *, skip_bad: int = 0) -> Trace:
    """Find out what a trace is; up to `skip_bad` bad lines may come first."""
    file, found = detect(path, skip_bad=skip_bad)
    return Trace(path=file, format=found, block_tokens=_BLOCK_TOKENS.get(found), lacks=LACKS[found])


def load(
    path: Path, *, skip_bad: int = 0, starts: Path | None = None, progress: Progress | None = None
) -> Loaded:
    """Read all requests into arrays; `starts` gives the session starts of an agentic trace.

    Up to `skip_bad` bad rows are left out and counted. Raises ArrivalsOnly for a trace without blocks, and
    TraceError for `starts` where sessions have their own.
    """
    trace = open_trace(path, skip_bad=skip_bad)
    if starts is not None and trace.format is not Format.AGENTIC:
        raise TraceError(trace.path, 1, "format", f"{trace.format} takes no session starts ({starts})")
    if not trace.has_blocks:
        raise ArrivalsOnly(trace.path, 1, "format", f"{trace.format} lacks {'; '.join(trace.lacks)}")
    reader = _LOADERS[trace.format]
    if trace.format is Format.AGENTIC:
        reader = partial(agentic.load_agentic, starts=starts)
    return reader(Source(trace.path, Skips(skip_bad), progress))


def load_arrivals(
    path: Path, *, skip_bad: int = 0, progress: Progress | None = None
) -> Arrivals | ClientRates:
    """Read the arrivals of a trace of any format; of ServeGen the rates of clients."""
    trace = open_trace(path, skip_bad=skip_bad)
    source = Source(trace.path, Skips(skip_bad), progress)
    if trace.format is Format.AZURE:
        return load_azure(source)
    if trace.format is Format.SERVEGEN:
        return load_servegen(source)
    return arrivals_of(load(path, skip_bad=skip_bad, progress=progress))


def arrivals_of(loaded: Loaded) -> Arrivals:
    """The arrivals of requests that have blocks; a prompt's tokens are those of its blocks."""
    import numpy as np

    requests = loaded.requests
    before = np.concatenate(([0], np.cumsum(requests.tokens, dtype=np.int64)))
    return Arrivals(
        times=np.asarray(requests.times),
        prompts=np.diff(before[np.asarray(requests.starts)]).astype(np.int32),
        outputs=np.asarray(requests.outputs),
        format=loaded.format,
        notes=loaded.notes,
        skipped=loaded.skipped,
    )
