"""What users call the policies, and the numbers that hot functions take.

The numbers are those of `Eviction` in policy.py.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

LRU: Final = 0
FIFO: Final = 1
SIEVE: Final = 2
S3FIFO: Final = 3
ARC: Final = 4
TOKEN_LRU: Final = 5
WORKLOAD_AWARE: Final = 6
REUSE_AWARE: Final = 7

NUMBERS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "LRU": LRU,
        "FIFO": FIFO,
        "S3FIFO": S3FIFO,
        "SIEVE": SIEVE,
        "ARC": ARC,
        "TokenLRU": TOKEN_LRU,
        "WorkloadAware": WORKLOAD_AWARE,
        "ReuseAware": REUSE_AWARE,
    }
)
"""By the user's name."""
