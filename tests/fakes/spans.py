"""Seeded noise as cumulative sums, and stretches of time with one configuration."""

from dataclasses import dataclass

import numpy as np

from tests.fakes.responses import Response

_CHUNK = 1024
_CLIP = 4.0


class Noise:
    """Cumulative sums of standard normal cells: `sum(k)` adds the first k cells of one stream."""

    def __init__(self, *seed: int) -> None:
        self._seed = seed
        self._sums = [0.0]

    def __deepcopy__(self, memo: object) -> "Noise":
        """The stream is fixed by its seed: copies may share what is known of it."""
        return self

    def sum(self, cells: int) -> float:
        """The sum of the first `cells` cells."""
        while cells >= len(self._sums):
            rng = np.random.default_rng((*self._seed, len(self._sums)))
            new = np.clip(rng.standard_normal(_CHUNK), -_CLIP, _CLIP)
            self._sums += (self._sums[-1] + np.cumsum(new)).tolist()
        return self._sums[cells]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What has been counted until a cell."""

    requests: float = 0.0
    hits: float = 0.0
    within: float = 0.0
    passes: float = 0.0
    bytes_down: float = 0.0
    errors: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One stretch of time with one configuration and traffic; `before` is what was counted until its cell."""

    cell: int
    response: Response
    rate: float
    errors_rate: float = 0.0
    before: Sums = Sums()

    def __deepcopy__(self, memo: object) -> "Span":
        """Frozen, and so is all it holds."""
        return self
