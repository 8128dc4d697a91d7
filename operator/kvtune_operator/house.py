"""What the control plane allows a policy, seen over all policies: the port `House`."""

from datetime import datetime

from kvtune_api.policy import KVCachePolicy
from kvtune_operator.ports import House, Sources
from kvtune_tuner.model import Limits


class OneHouse(House):
    """A house of one policy: no limits but its own, and fixed sources."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def limits(self, policy: KVCachePolicy, now: datetime) -> Limits:
        """No limits."""
        return Limits()

    def sources(self, policy: KVCachePolicy) -> Sources:
        """The fixed sources."""
        return self._sources
