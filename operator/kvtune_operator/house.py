"""What the control plane allows a policy, seen over all policies: the port `House`.

Limits come from the operator's settings, which are read live, and from the last known state of all policies.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from kvtune_api.errors import Conflict
from kvtune_api.names import Phase, Reason
from kvtune_api.operator_config import OperatorConfig
from kvtune_api.policy import KVCachePolicy
from kvtune_operator.freeze import frozen
from kvtune_operator.ports import House, Invalid, Sources, Stored
from kvtune_tuner.model import Hold, Limits

Key = tuple[str, str]
"""Namespace and name of a policy."""


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


class Rules(Protocol):
    """The operator's settings as they are now."""

    @property
    def config(self) -> OperatorConfig:
        """The last valid settings; defaults where there never were any."""
        ...

    @property
    def trouble(self) -> str:
        """Why no valid settings are known, where that is so since the start; else empty."""
        ...


class ClusterHouse(House):
    """A house of many policies under one set of rules. Used within one event loop."""

    def __init__(
        self, rules: Rules, sources: Callable[[KVCachePolicy, OperatorConfig], Sources], *, where: str
    ) -> None:
        """`where` names the place of the rules in messages."""
        self._rules = rules
        self._sources = sources
        self._where = where
        self._known: dict[Key, KVCachePolicy] = {}
        self._live: set[Key] = set()

    def limits(self, policy: KVCachePolicy, now: datetime) -> Limits:
        """The kill switch, freeze windows, the cap on experiments, and the cap on exposed agents."""
        config = self._rules.config
        share = config.max_exposed_share
        if config.stop:
            hold = Hold(reason=Reason.STOPPED, message=f"the kill switch is on ({self._where}: stop)")
            return Limits(no_start=hold, no_experiment=hold, exposed_share=share)
        if freeze := frozen(config.freeze_windows, now):
            hold = Hold(reason=Reason.FROZEN, message=str(freeze))
            return Limits(no_start=hold, no_experiment=hold, exposed_share=share)
        if trouble := self._rules.trouble:
            hold = Hold(reason=Reason.INVALID, message=trouble[:400])
            return Limits(no_start=hold, exposed_share=share)
        return Limits(no_start=self._capped(key_of(policy)), exposed_share=share)

    def sources(self, policy: KVCachePolicy) -> Sources:
        """Where its figures come from; raise `SpecError` naming the field that keeps it from being known."""
        return self._sources(policy, self._rules.config)

    def older(self, policy: KVCachePolicy) -> Sequence[KVCachePolicy]:
        """Policies of its namespace that were there before it: they keep the agents that both select."""
        own = _age(policy)
        rivals = [
            other
            for (namespace, name), other in self._known.items()
            if namespace == (policy.metadata.namespace or "")
            and name != policy.metadata.name
            and _age(other) < own
        ]
        return sorted(rivals, key=_age)

    def admit(self, policy: Key) -> None:
        """Let a policy start an experiment now; raise `Conflict` when others have taken the last places.

        Between what `limits` said and a start lie awaits in which another policy may have started.
        """
        if policy in self._live:
            return
        if (hold := self._capped(policy)) is not None:
            raise Conflict(hold.message)
        self._live.add(policy)

    def saw(self, stored: Stored) -> None:
        """Keep the newest state of a policy."""
        key = key_of(stored)
        if isinstance(stored, Invalid):
            self._known.pop(key, None)
        else:
            self._known[key] = stored
        status = stored.status
        exposes = status is not None and status.experiment is not None
        if exposes and status is not None and status.phase is not Phase.AWAITING_APPROVAL:
            self._live.add(key)
        else:
            self._live.discard(key)

    def gone(self, policy: Key) -> None:
        """Forget a policy."""
        self._known.pop(policy, None)
        self._live.discard(policy)

    @property
    def live(self) -> int:
        """How many experiments run."""
        return len(self._live)

    def _capped(self, policy: Key) -> Hold | None:
        most = self._rules.config.max_experiments
        others = len(self._live - {policy})
        if policy in self._live or others < most:
            return None
        text = f"{others} experiments run, at most {most} may at once ({self._where}: maxExperiments)"
        return Hold(reason=Reason.CAPPED, message=text)


def key_of(policy: Stored) -> Key:
    """Namespace and name."""
    return policy.metadata.namespace or "", policy.metadata.name


def _age(policy: KVCachePolicy) -> tuple[str, str]:
    """Older policies are smaller; RFC 3339 stamps of one server sort as text."""
    return policy.metadata.creation_timestamp or "", policy.metadata.uid or ""
