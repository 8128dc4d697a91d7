"""Plain data without what JSON has no word for: NaN and the infinities.

Apart from codec.py, so that a command that only prints JSON need not import the types of this room.
"""

import math
from typing import Any


def finite(value: Any) -> Any:
    """The same plain data with NaN and the infinities replaced by null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return value
