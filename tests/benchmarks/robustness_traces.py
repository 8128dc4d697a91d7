"""Traces that nobody recorded: published ones with their sessions shuffled, one after another, or at once.

They keep what is true of requests within a session and change what surrounds them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kvtune_cache.requests import Requests
from kvtune_lab.readers.load import load

TRACES = Path(__file__).parents[3] / "shared/traces"
CONVERSATION = "mooncake_conversation_trace.jsonl.gz"
SYNTHETIC = "mooncake_synthetic_trace.jsonl.gz"
PASSAGES = "ragpulse_0_trace.jsonl.gz"
SEED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The first `count` requests of a trace, or all, from a second of the mixture on."""

    requests: Requests
    begins_seconds: float = 0.0
    count: int | None = None


def loaded(name: str) -> Requests:
    """Read a published trace."""
    return load(TRACES / name).requests


def shuffled(requests: Requests, position: int | None) -> Requests:
    """Let sessions begin at one another's times, cut off where the trace ends.

    A session is what shares the block at `position`; without one each request is its own.
    """
    starts, times = np.asarray(requests.starts), np.asarray(requests.times)
    rng = np.random.default_rng(SEED)
    if position is None:
        later = times[rng.permutation(len(times))]
    else:
        last = np.diff(starts) - 1
        key = np.asarray(requests.blocks)[starts[:-1] + np.minimum(position, last)]
        _, session = np.unique(key, return_inverse=True)
        began = np.full(session.max() + 1, np.inf)
        np.minimum.at(began, session, times)
        later = began[rng.permutation(len(began))][session] + times - began[session]
    order = np.argsort(later, kind="stable")
    return _taken([requests], [(later[r], 0, int(r)) for r in order if later[r] <= times[-1]])


def laid_together(parts: Sequence[Part]) -> Requests:
    """Serve parts of traces in one cache, their blocks kept apart."""
    rows: list[tuple[float, int, int]] = []
    for number, part in enumerate(parts):
        times = part.requests.times
        count = part.count or len(times)
        rows += [(part.begins_seconds + times[r] - times[0], number, r) for r in range(count)]
    return _taken([part.requests for part in parts], sorted(rows))


def _taken(sources: Sequence[Requests], rows: Sequence[tuple[float, int, int]]) -> Requests:
    """Take requests, each a time, a source and a number there, in this order; blocks are numbered anew."""
    bases = np.cumsum([0, *(int(max(source.blocks)) + 1 for source in sources)])
    spans = [(s, sources[s].starts[r], sources[s].starts[r + 1]) for _, s, r in rows]
    blocks = np.concatenate([np.asarray(sources[s].blocks[a:b]) + bases[s] for s, a, b in spans])
    tokens = np.concatenate([np.asarray(sources[s].tokens[a:b]) for s, a, b in spans])
    numbered = np.unique(blocks, return_inverse=True)[1]
    return Requests(
        [0, *np.cumsum([b - a for _, a, b in spans]).tolist()],
        numbered.tolist(),
        tokens.tolist(),
        [float(now) for now, _, _ in rows],
        [int(sources[s].outputs[r]) for _, s, r in rows],
        [0] * len(rows),
        [0.0] * len(rows),
    )


def _half(requests: Requests) -> int:
    return len(requests.times) // 2


def mixtures() -> dict[str, Callable[[], Requests]]:
    """List the traces by what they are."""
    return {
        "conversation, sessions shuffled": lambda: shuffled(loaded(CONVERSATION), 1),
        "synthetic, sessions shuffled": lambda: shuffled(loaded(SYNTHETIC), 0),
        "RAGPulse, requests shuffled": lambda: shuffled(loaded(PASSAGES), None),
        "conversation, then synthetic": lambda: laid_together(
            [
                Part(requests=loaded(CONVERSATION), count=_half(loaded(CONVERSATION))),
                Part(requests=loaded(SYNTHETIC), begins_seconds=1800),
            ]
        ),
        "synthetic, then conversation": lambda: laid_together(
            [
                Part(requests=loaded(SYNTHETIC)),
                Part(requests=loaded(CONVERSATION), begins_seconds=1030, count=_half(loaded(CONVERSATION))),
            ]
        ),
        "RAGPulse's week, then conversation": lambda: laid_together(
            [
                Part(requests=loaded(PASSAGES)),
                Part(requests=loaded(CONVERSATION), begins_seconds=604_700),
            ]
        ),
        "conversation and synthetic at once": lambda: laid_together(
            [
                Part(requests=loaded(CONVERSATION), count=len(loaded(CONVERSATION).times) // 3),
                Part(requests=loaded(SYNTHETIC)),
            ]
        ),
    }
