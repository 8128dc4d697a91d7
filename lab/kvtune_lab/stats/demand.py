"""What a part of a trace asks of a cache: its users, its working sets, and how its requests arrive."""

from dataclasses import dataclass

import numpy as np

from kvtune_lab.readers.loaded import Loaded, Reals
from kvtune_lab.stats.arrivals import Spikes, spikes_of
from kvtune_lab.stats.classes import Classes
from kvtune_lab.stats.skew import Skew, skew_of
from kvtune_lab.stats.turns import Conversations
from kvtune_lab.stats.working_set import Part, WorkingSet, working_set_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Of one class, or of the whole trace."""

    skew: Skew | None
    """None for a part of the prompt, which is in every user's requests."""

    working_set: WorkingSet
    spikes: Spikes | None
    """None for a part of the prompt, and where no full minute holds a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """Works out the demand of parts of one trace."""

    loaded: Loaded
    talks: Conversations
    hit_tokens: Reals
    """Of each request, what an infinite cache hits."""

    window_seconds: float
    bytes_per_block: int | None

    def of_class(self, classes: Classes, k: int) -> Demand:
        """Of a class by its number."""
        if classes.of_block is not None:
            return Demand(
                skew=None, working_set=self._working_set(Part(blocks=classes.of_block == k)), spikes=None
            )
        assert classes.of_request is not None
        return self._of(Part(requests=np.flatnonzero(classes.of_request == k)))

    def of_whole(self) -> Demand:
        """Of all requests."""
        return self._of(Part(requests=np.arange(len(self.hit_tokens))))

    def _of(self, part: Part) -> Demand:
        times, mine = np.asarray(self.loaded.requests.times), part.requests
        return Demand(
            skew=skew_of(self.talks.sessions[mine], self.hit_tokens[mine], inferred=self.talks.inferred),
            working_set=self._working_set(part),
            spikes=spikes_of(times[mine], until_seconds=float(times[-1])),
        )

    def _working_set(self, part: Part) -> WorkingSet:
        return working_set_of(self.loaded, self.window_seconds, self.bytes_per_block, part=part)
