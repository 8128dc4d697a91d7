"""What a prompt begins with: a signature of its first tokens, the class of a document.

The first ten tokens of a document decide most of its later reuse (systems.md, section 3).
"""

from collections.abc import Sequence

SIGNATURE_TOKENS = 10
SIGNATURES = 1 << 30
_MULTIPLIER = 6364136223846793005
_MASK = (1 << 64) - 1


def signature(tokens: Sequence[int]) -> int:
    """Give a number from 1 to SIGNATURES that prompts with the same first tokens share; 0 for none.

    The same in every process. The multiplier is that of Knuth's MMIX generator (TAOCP 2, 3.3.4).
    """
    if not tokens:
        return 0
    mixed = 0
    for token in tokens[:SIGNATURE_TOKENS]:
        mixed = ((mixed ^ (token & _MASK)) * _MULTIPLIER + 1) & _MASK
        mixed ^= mixed >> 29
    return (mixed >> 32) % SIGNATURES + 1
