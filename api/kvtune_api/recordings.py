"""The format of recordings of kvtune's agents: JSON lines, without any text of a prompt.

The first line is `{"format": "kvtune-recording/1", "blockTokens": 16}`, each further one a request:
`{"t": 12.5, "session": "a1", "blocks": [7, 8, 9], "prompt": 40, "output": 12, "kind": "chat"}`: arrival in
seconds, never going back; prefix-chained ids of its blocks, whole numbers below 2^64, head first, the last
possibly partial (then it may also be left out); tokens of prompt and answer. `session`, `output` and `kind`
may be missing: not known. So may be `hint`, what the client told of its session, such as
`{"sessionEnded": true}`, `{"toolRunning": true}` or `{"expectedReturnSeconds": 30}`.

Agents and the laboratory write it, the laboratory reads it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kvtune_api.hints import Hint

FORMAT_FIELD: Final = "format"
RECORDING: Final = "kvtune-recording/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One request of a recording; None is not known."""

    arrival_s: float
    blocks: Sequence[int]
    prompt_tokens: int
    output_tokens: int | None = None
    session: str | None = None
    kind: str | None = None
    hint: Hint | None = None


def heading(block_tokens: int) -> str:
    """The first line, with its end. Raises ValueError for blocks of no token."""
    if block_tokens < 1:
        raise ValueError(f"block_tokens: {block_tokens} is less than 1")
    return json.dumps({FORMAT_FIELD: RECORDING, "blockTokens": block_tokens}) + "\n"


def line(request: Recorded, *, block_tokens: int, after_s: float) -> str:
    """The line of a request that comes at or after a time, with its end.

    Raises ValueError for a time before that, or blocks that do not fit the prompt.
    """
    if not after_s <= request.arrival_s < float("inf"):
        raise ValueError(f"arrival_s: {request.arrival_s} is before {after_s}, or not finite")
    full, needed = request.prompt_tokens // block_tokens, -(-request.prompt_tokens // block_tokens)
    if not full <= len(request.blocks) <= needed:
        raise ValueError(f"blocks: {len(request.blocks)} for {request.prompt_tokens} prompt tokens")
    row: dict[str, object] = {
        "t": request.arrival_s,
        "session": request.session,
        "blocks": list(request.blocks),
        "prompt": request.prompt_tokens,
        "output": request.output_tokens,
        "kind": request.kind,
        "hint": None if request.hint is None else request.hint.said(),
    }
    kept = {name: value for name, value in row.items() if value is not None}
    return json.dumps(kept, separators=(",", ":")) + "\n"
