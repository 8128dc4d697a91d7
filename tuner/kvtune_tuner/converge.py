"""Say what each agent should run, and push where it does not. Pure.

Level-triggered: the wanted state follows from the status alone, so a push that was lost, an agent that joined
or one that restarted is simply pushed again.
"""

from dataclasses import dataclass, replace

from kvtune_api.experiment import BlockKind
from kvtune_api.knobs import CacheConfig, point
from kvtune_api.knobs import config as config_of
from kvtune_api.names import Phase
from kvtune_api.policy import Mode
from kvtune_api.wire import FallbackRules, Push, Report, Role
from kvtune_tuner.draft import Draft, runs
from kvtune_tuner.fallback import fallback_rules
from kvtune_tuner.promote import promoted_agents
from kvtune_tuner.space import live_knobs
from kvtune_tuner.switching import candidates_of

RENEW_BELOW = 2.0 / 3.0
"""A lease is renewed when less than this share of it is left."""

LEAST_LEASE_SECONDS = 3.0
LEASE_TICKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What one agent should run."""

    role: Role
    config: CacheConfig


def lease_seconds(draft: Draft) -> float:
    """A candidate's lease, wall seconds: as the policy says, but at least three ticks and three seconds."""
    spec = draft.live.spec.policy_spec if draft.experiment else draft.seen.policy.spec
    ticks = LEASE_TICKS * draft.ticks / draft.seen.speed
    return max(spec.experiment.lease_duration.seconds, ticks, LEAST_LEASE_SECONDS)


def candidates(draft: Draft) -> frozenset[str]:
    """Agents that should run the candidate now."""
    if draft.experiment is None:
        return frozenset()
    record = draft.live.status
    match record.phase:
        case Phase.WASHOUT | Phase.MEASURING:
            epoch = record.epoch
            if epoch is None or epoch.kind is BlockKind.RUN_IN:
                return frozenset()
            return candidates_of(draft, epoch)
        case Phase.PROMOTING | Phase.WATCHING:
            return frozenset(promoted_agents(draft.live, tuple(a.name for a in draft.seen.agents)))
        case _:
            return frozenset()


def pushes(draft: Draft) -> dict[str, Push]:
    """The pushes of this tick: every agent that answers and is not as it should be, and leases to renew."""
    incumbent = draft.status.incumbent
    if incumbent is None or (draft.seen.policy.spec.mode is Mode.OBSERVE and draft.experiment is None):
        return {}
    exposed = candidates(draft)
    found = {}
    for name, report in zip(draft.names, draft.reports, strict=True):
        wanted = (
            Wanted(role=Role.CANDIDATE, config=draft.live.spec.candidate)
            if name in exposed
            else Wanted(role=Role.INCUMBENT, config=incumbent)
        )
        if _due(draft, report, wanted):
            known = _known(report, wanted.config)  # who knows none of it is told all of it, and refuses
            rules = fallback_rules(draft.seen.policy.spec, report)
            found[name] = _push(draft, replace(wanted, config=known) if point(known) else wanted, rules)
    return found


def _known(report: Report, config: CacheConfig) -> CacheConfig:
    """The part of a configuration that an agent can change live; it keeps its own of the rest."""
    values, live = point(config), live_knobs((report,))
    if values.keys() <= live:
        return config
    return config_of({knob: value for knob, value in values.items() if knob in live})


def _due(draft: Draft, report: Report, wanted: Wanted) -> bool:
    running = report.running
    if running.role is not wanted.role or not runs(report, wanted.config):
        return True
    if running.fallback_rules != fallback_rules(draft.seen.policy.spec, report):
        return True
    if wanted.role is Role.INCUMBENT:
        return False
    if (running.generation, running.policy_uid) != (draft.status.push_generation, _uid(draft)):
        return True
    left = running.lease_remaining_seconds
    return left is None or left <= RENEW_BELOW * lease_seconds(draft) or running.token != draft.seen.token


def _push(draft: Draft, wanted: Wanted, rules: FallbackRules | None) -> Push:
    return Push(
        role=wanted.role,
        generation=draft.status.push_generation,
        token=draft.seen.token,
        policy_uid=_uid(draft),
        config=wanted.config,
        lease_seconds=lease_seconds(draft) if wanted.role is Role.CANDIDATE else None,
        fallback_rules=rules,
    )


def _uid(draft: Draft) -> str:
    return draft.seen.policy.metadata.uid or draft.seen.policy.metadata.name
