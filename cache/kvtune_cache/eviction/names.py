"""What users call the policies, and the numbers that hot functions take.

The numbers are those of `Eviction` in policy.py.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

NUMBERS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "LRU": 0,
        "FIFO": 1,
        "S3FIFO": 3,
        "SIEVE": 2,
        "ARC": 4,
        "TokenLRU": 5,
        "WorkloadAware": 6,
        "ReuseAware": 7,
    }
)
"""By the user's name."""
