"""Decide what a push does to what an agent holds. Pure: no I/O, no clock.

The fencing rule of docs/architecture.md, "One reconcile": a push is accepted iff its token is greater than
the one held; or the token is equal and the policy UID differs (the generation restarts; refused while another
UID's candidate is under a live lease); or token and UID are equal and the generation is greater. The same
generation with the same assignment is there already (a candidate's lease is renewed); with another one it is
a conflict.

An assignment is the role and the values of the knobs. How long the lease is, when the eviction policy falls
back, and whether 90 s is written `90s` or `1m30s`, is not part of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256

from kvtune_api.knobs import CacheConfig, Tiers, point
from kvtune_api.names import Reason
from kvtune_api.wire import FallbackRules, KnobSupport, Push, Role, Running


class Stale(StrEnum):
    """Why a push is too old, or not its sender's turn."""

    TOKEN = "StaleToken"
    GENERATION = "StaleGeneration"
    LEASED = "Leased"
    REUSED = "GenerationReused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The newest push that was accepted; `assignment` is a digest of its role and knob values."""

    token: int = 0
    policy_uid: str = ""
    generation: int = 0
    assignment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """All that an agent holds: the fence, the incumbent, perhaps a candidate.

    `lease_ends` is in monotonic wall seconds.
    """

    incumbent: CacheConfig
    fence: Fence = Fence()
    candidate: CacheConfig | None = None
    lease_ends: float | None = None
    lease_lapses: int = 0
    fallback_rules: FallbackRules | None = None
    """None: the engine's own."""

    @property
    def config(self) -> CacheConfig:
        """The configuration in force."""
        return self.candidate if self.candidate is not None else self.incumbent


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The push is accepted: hold this from now on."""

    held: Held


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyThere:
    """The push was accepted before: only a lease is renewed."""

    held: Held


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The push is refused (HTTP `status`) and nothing changes."""

    status: int
    reason: str
    message: str


Decision = Applied | AlreadyThere | Refused


def decide(held: Held, push: Push, *, now: float, supports: Sequence[KnobSupport]) -> Decision:
    """What a push does to `held` at `now` (monotonic wall seconds)."""
    fence = held.fence
    same_sender = push.token == fence.token and push.policy_uid == fence.policy_uid
    if push.token < fence.token:
        return _stale(Stale.TOKEN, f"token: {push.token} is less than {fence.token}, which this agent holds")
    if push.token == fence.token and not same_sender and _leased(held, now):
        return _stale(
            Stale.LEASED,
            f"policyUID: a candidate of policy {fence.policy_uid} is under a lease,"
            f" policy {push.policy_uid} must wait",
        )
    if same_sender and push.generation < fence.generation:
        return _stale(
            Stale.GENERATION,
            f"generation: {push.generation} is less than {fence.generation}, which this agent holds",
        )
    if same_sender and push.generation == fence.generation:
        return _repeated(held, push, now)
    return unsupported(push.config, supports, running=held.config) or Applied(held=_taken(held, push, now))


def lapsed(held: Held, now: float) -> Held:
    """The same, back on the incumbent if the candidate's lease has run out at `now`."""
    if held.candidate is None or _leased(held, now):
        return held
    return replace(held, candidate=None, lease_ends=None, lease_lapses=held.lease_lapses + 1)


def running(held: Held, now: float) -> Running:
    """What an agent says it runs at `now`."""
    ends = held.lease_ends
    return Running(
        role=Role.CANDIDATE if held.candidate is not None else Role.INCUMBENT,
        config=held.config,
        incumbent=held.incumbent,
        generation=held.fence.generation,
        token=held.fence.token,
        policy_uid=held.fence.policy_uid,
        lease_remaining_seconds=max(0.0, ends - now) if ends is not None else None,
        lease_lapses=held.lease_lapses,
        fallback_rules=held.fallback_rules,
    )


def assignment(push: Push) -> str:
    """A digest of what a push assigns: its role and the values of its knobs."""
    values = sorted((str(knob), value) for knob, value in point(push.config).items())
    return sha256(repr((str(push.role), values)).encode()).hexdigest()[:16]


def unsupported(
    config: CacheConfig, supports: Sequence[KnobSupport], *, running: CacheConfig
) -> Refused | None:
    """Refuse knobs that an engine does not have, and changes of knobs that it cannot change while it runs."""
    has = {support.knob: support.live for support in supports}
    now = point(running)
    unknown = [f"config.{knob}: this engine has no such knob" for knob in point(config) if knob not in has]
    fixed = [
        f"config.{knob}: changes only when the engine restarts"
        for knob, value in point(config).items()
        if has.get(knob) is False and now.get(knob) != value
    ]
    if not unknown and not fixed:
        return None
    return Refused(status=422, reason=Reason.KNOB_UNSUPPORTED, message="; ".join(unknown + fixed))


def _leased(held: Held, now: float) -> bool:
    return held.candidate is not None and held.lease_ends is not None and now < held.lease_ends


def _repeated(held: Held, push: Push, now: float) -> Decision:
    if assignment(push) != held.fence.assignment:
        return _stale(
            Stale.REUSED,
            f"generation: {push.generation} was already sent with another role or other values",
        )
    return AlreadyThere(held=_taken(held, push, now))


def _taken(held: Held, push: Push, now: float) -> Held:
    fence = Fence(
        token=push.token,
        policy_uid=push.policy_uid,
        generation=push.generation,
        assignment=assignment(push),
    )
    config = whole(push.config, held.incumbent)
    held = replace(held, fallback_rules=push.fallback_rules)
    if push.lease_seconds is None:
        return replace(held, fence=fence, incumbent=config, candidate=None, lease_ends=None)
    return replace(held, fence=fence, candidate=config, lease_ends=now + push.lease_seconds)


def whole(config: CacheConfig, otherwise: CacheConfig) -> CacheConfig:
    """A configuration with another one's values for knobs that it leaves out.

    So an agent reports every knob that it runs, also those that no policy names.
    """
    host, policy, threshold = config.tiers.host_memory, config.eviction_policy, config.store_threshold
    return CacheConfig(
        cache_ttl=otherwise.cache_ttl if config.cache_ttl is None else config.cache_ttl,
        eviction_ratio=otherwise.eviction_ratio if config.eviction_ratio is None else config.eviction_ratio,
        tiers=Tiers(host_memory=otherwise.tiers.host_memory if host is None else host),
        eviction_policy=otherwise.eviction_policy if policy is None else policy,
        store_threshold=otherwise.store_threshold if threshold is None else threshold,
    )


def _stale(reason: Stale, message: str) -> Refused:
    return Refused(status=409, reason=reason, message=message)
