"""The rows of an experiment's ledger: what was counted, what was decided, and the tests where rows have left.

`kvtune replay` recomputes every verdict from these.
"""

from typing import Annotated, Literal

from pydantic import Field

from kvtune_api.codec import frozen

LEDGER_VERSION = 2
"""2: a guardrail with data for fewer than half of the Deltas ends as NoData, not as MaxPairs."""

RING_ROWS = 112
"""A row has about 430 bytes and a decision 280 (one per two rows at least): an object stays under 64 KiB.

With profiles a row has some 100 more; Kubernetes objects carry the rows packed (packing.py).
"""


@frozen
class TestState:
    """A sequential test after some Deltas: enough to go on from."""

    __test__ = False

    s0: float
    n: int
    mean: float
    q: float
    """Sum of squared deviations from the mean."""

    sum: float
    log_products: tuple[float, ...]
    log_e_max: float = 0.0


@frozen
class Checkpoint:
    """Every test after the blocks that have left the ring."""

    blocks: int
    """Test blocks that are in here and no longer in the ring."""

    recent_blocks: Annotated[tuple[tuple[float, int], ...], Field(max_length=2)] = ()
    """Sum and number of the superiority x of the last two of them."""

    tests: dict[str, TestState]
    """By name: superior, harm, and for each guardrail NAME.noninferior, NAME.harm."""

    candidate_roots: float | None = None
    control_roots: float | None = None


@frozen
class Figures:
    """Counter increases of one agent over one measuring window."""

    requests: float
    prompt_tokens: float
    hit_tokens: float
    passes: float | None = None
    bytes_down: float | None = None
    within: float | None = None
    """Requests within the TTFT limit (largest histogram boundary not above it)."""

    timed: float | None = None
    """Requests whose TTFT was counted."""

    roots: float | None = None
    """New session roots; absent where the engine does not count them."""

    load: float | None = None
    """Profile samples that waited for blocks to be loaded; absent, as the next three, without profiles."""

    store: float | None = None
    """Profile samples that waited for blocks to be stored."""

    evict: float | None = None
    """Profile samples that waited for an eviction."""

    samples: float | None = None
    """All profile samples."""


@frozen
class Row:
    """One pair in one epoch of one block."""

    block: int
    attempt: int = 0
    """Grows when a block is repeated with new coins."""

    epoch: Literal[1, 2]
    pair: int
    coin: bool
    """True: the pair's second agent runs the candidate in epoch 1."""

    start: float
    end: float
    candidate: Figures | None = None
    control: Figures | None = None
    dropped: str | None = None
    """Why the pair does not count in this block (blind to which arm is which)."""


@frozen
class Decision:
    """What was decided at a block's end: replay must come to the same."""

    block: int
    attempt: int
    deltas: int
    verdict: str
    reason: str
    e_values: dict[str, float]
    """ln of the e-value of each test."""
