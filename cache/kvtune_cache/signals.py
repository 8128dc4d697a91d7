"""What a policy may know of the request that is being served: the slots of `Cache.request`.

Whoever serves a request fills them in before its first block is touched. Slots that say "0: not known" may be
left alone by a caller that never knows.
"""

from collections.abc import MutableSequence
from typing import Final, TypeAlias

Floats: TypeAlias = MutableSequence[float]
"""A list of floats, or a numpy array of float64."""

NOW: Final = 0
OUTPUT_TOKENS: Final = 1
KIND: Final = 2
START: Final = 3
LENGTH: Final = 4
POSITION: Final = 5
TURN: Final = 6
SWITCHED: Final = 7
CLASS: Final = 8
SIGNATURE: Final = 9
PROMPT_TOKENS: Final = 10
HINT: Final = 11
SIGNALS: Final = 12
"""Seconds on the caller's clock, which never goes back; tokens of the answer (-1: not known); request type or
stop reason, 0 (not known) to 5; index of the request's first block among the blocks; its blocks; which of
them, from 0, is being touched; turn of its session, from 1 (0: not known); 1 where the session has switched
its topic; the caller's own class + 1 (0: not given); signature of the first tokens of a document, a whole
number above 0 (0: not known); tokens of the prompt (0: not known);
what the client expects of the session: seconds until it returns, below 0 that it is over (0: not known)."""
