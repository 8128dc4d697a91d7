"""The classes of sessions that the generator draws from, with every chosen number.

Called by generator.py. P(reuse) and mean waits are cache.md's table of classes: Mooncake conversation by
turn, agentic_dev by stop reason. Everything else is chosen, so that the demo's best configuration lies
inside its bounds:

| chosen | chat | tool-using |
|---|---|---|
| share of requests | .24 | .76 |
| shared system prompt, blocks (2 ids per kind, the same everywhere) | 2 | 2 |
| first message, mean tokens / sigma (one block more is added) | 1,800 / .8 | 800 / .6 |
| growth of the prompt per turn, mean tokens / sigma | 400 / .8 | 190 / .8 |
| answer, mean tokens / sigma (counted, not cached by the replay) | 250 / .8 | 120 / .8 |
| sigma of the waits (lognormal) | 1.0 | tool_use 1.0, end_turn 1.3 |
| requests that stop with end_turn | - | .08 |
| most turns | 30 | 30 |

With 128-token blocks that is about 24 blocks a request and 1.6 / 15 turns a session.

Two workloads have names. `chat` is the above. `mixed` is what the demo runs: the same chat, and a share of
.15 of requests that are asked once and never again (a document to label, to extract from, to summarise in a
line: 2,600 tokens / sigma .5 and one block more, answers of 60 tokens / .6, two blocks of shared system
prompt). They fill a tier that takes in everything, which is what eviction policies and store thresholds are
for. Measured figures are in tests/lab/test_calibration.py and test_calibration_mixed.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The chance that a session goes on after a request, and the lognormal wait before it does."""

    reuse_probability: float
    mean_seconds: float
    sigma: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A lognormal number of tokens; sigma is that of the logarithm."""

    mean_tokens: float
    sigma: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKind:
    """How one kind of session grows and pauses.

    `gaps[k]` follows turn k, the last one every later turn; a share `pause_share` of requests is followed by
    `pause` instead. `history_seconds` is how far before its start the generator looks for sessions still
    alive.
    """

    request_share: float
    system_blocks: int
    first: Size
    growth: Size
    answer: Size
    gaps: tuple[Gap, ...]
    pause: Gap
    pause_share: float
    most_turns: int
    history_seconds: float

    def go_on_probability(self, turn: int) -> float:
        """Give the chance that another request follows turn `turn` (from 0)."""
        if turn + 1 >= self.most_turns:
            return 0.0
        plain = self.gaps[min(turn, len(self.gaps) - 1)].reuse_probability
        return (1 - self.pause_share) * plain + self.pause_share * self.pause.reuse_probability

    @property
    def mean_turns(self) -> float:
        """Give the expected requests of a session."""
        alive, turns = 1.0, 0.0
        for turn in range(self.most_turns):
            turns += alive
            alive *= self.go_on_probability(turn)
        return turns


# cache.md, table of classes, rows "chat turn 1 / 2 / 3 / 4-5 / 6+" and "agent stop=end_turn".
_CHAT_TURNS = ((0.30, 294.0), (0.38, 219.0), (0.46, 202.0), (0.56, 189.0), (0.56, 189.0), (0.75, 168.0))
_END_TURN = Gap(reuse_probability=0.72, mean_seconds=1113.0, sigma=1.3)

CHAT = SessionKind(
    request_share=0.24,
    system_blocks=2,
    first=Size(mean_tokens=1800.0, sigma=0.8),
    growth=Size(mean_tokens=400.0, sigma=0.8),
    answer=Size(mean_tokens=250.0, sigma=0.8),
    gaps=tuple(Gap(reuse_probability=p, mean_seconds=mean, sigma=1.0) for p, mean in _CHAT_TURNS),
    pause=_END_TURN,
    pause_share=0.0,
    most_turns=30,
    history_seconds=7200.0,
)

TOOL_USING = SessionKind(
    request_share=0.76,
    system_blocks=2,
    first=Size(mean_tokens=800.0, sigma=0.6),
    growth=Size(mean_tokens=190.0, sigma=0.8),
    answer=Size(mean_tokens=120.0, sigma=0.8),
    # cache.md, row "agent stop=tool_use".
    gaps=(Gap(reuse_probability=0.98, mean_seconds=53.0, sigma=1.0),),
    pause=_END_TURN,
    pause_share=0.08,
    most_turns=30,
    history_seconds=14400.0,
)

CHAT_WORKLOAD = (CHAT, TOOL_USING)

_NEVER = Gap(reuse_probability=0.0, mean_seconds=60.0, sigma=1.0)

ONE_SHOT = SessionKind(
    request_share=0.15,
    system_blocks=2,
    first=Size(mean_tokens=2600.0, sigma=0.5),
    growth=Size(mean_tokens=1.0, sigma=0.1),
    answer=Size(mean_tokens=60.0, sigma=0.6),
    gaps=(_NEVER,),
    pause=_NEVER,
    pause_share=0.0,
    most_turns=1,
    history_seconds=0.0,
)

_REST = 1 - ONE_SHOT.request_share
MIXED_WORKLOAD = (
    *(replace(kind, request_share=kind.request_share * _REST) for kind in CHAT_WORKLOAD),
    ONE_SHOT,
)

WORKLOADS: Mapping[str, tuple[SessionKind, ...]] = MappingProxyType(
    {"chat": CHAT_WORKLOAD, "mixed": MIXED_WORKLOAD}
)
"""Generated traffic by name."""
