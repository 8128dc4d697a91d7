"""The demo's last act: what happens when things go wrong, shown rather than told.

A deliberately bad candidate (a quarter of the host tier) meets the breaker; then the control plane is killed
with a candidate live, and every agent comes home at the end of its lease.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.knobs import CacheConfig, Knob, config, point
from kvtune_api.names import Phase
from kvtune_api.ranges import QuantityRange
from kvtune_api.wire import Report, Role
from kvtune_cli.clock import monotonic, unix_milliseconds
from kvtune_cli.demo.fleet import Fleet, start_control_plane
from kvtune_cli.demo.screen import named
from kvtune_cli.demo.watching import Picture, Watcher
from kvtune_operator.statedir import StateDir, Wish, leave
from kvtune_tuner.model import Verb

BREAKER_SECONDS = 14.0
"""Wall seconds that the breaker is given before the act goes on without it."""

CANDIDATE_SECONDS = 6.0
LEASE_SECONDS = 12.0
LOOK_SECONDS = 0.1
TITLE = "kvtune demo: the last act"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAct:
    """What the last act showed; None where it could not be shown in time."""

    bad_candidate: CacheConfig
    outcome: str | None
    """How the bad candidate's experiment ended; None when that was not seen in time."""

    breaker_scaled_seconds: float | None
    """From the first agent's switch to the breaker."""

    killed_with_candidates: int
    """Agents that ran a candidate when the control plane was killed."""

    home_after_wall_seconds: float | None
    """From the kill until every agent was on its incumbent again."""

    bad_state: str = ""
    """What the bad candidate's experiment was doing when its time was over."""

    gentle_state: str = ""
    """What the control plane was doing when it was killed."""


Show = Callable[[Picture, str], None]
Say = Callable[[str], None]


async def play_last_act(fleet: Fleet, watcher: Watcher, show: Show, say: Say, stop: asyncio.Event) -> LastAct:
    """Play it: at most half a minute."""
    picture = await watcher.look()
    status = picture.policy.status if picture.policy else None
    incumbent = status.incumbent if status and status.incumbent else CacheConfig()
    host = picture.policy.spec.knobs.tiers.host_memory if picture.policy else None
    bad, gentle = resized(incumbent, host, 0.25), resized(incumbent, host, 1.1)
    say(f"last act: a deliberately bad candidate, a quarter of the host tier: {named(bad)}")
    for wanted in (bad, gentle):
        leave(
            StateDir(fleet.state_dir),
            Wish(verb=Verb.TRY, config=wanted),
            unix_milliseconds=unix_milliseconds(),
        )
        await asyncio.sleep(0.002)
    plane = await start_control_plane(fleet, "control-plane-2", ends_at=None)
    known = {e.metadata.name for e in picture.ended}
    tripped = await _until(watcher, show, stop, BREAKER_SECONDS, lambda p: _new_end(p, known) is not None)
    end = _new_end(tripped, known)
    if end is not None:
        say(f"{end.metadata.name}: {end.status.outcome}({end.status.reason}): {end.status.message}")
    live = await _until(watcher, show, stop, CANDIDATE_SECONDS, lambda p: _exposed(p) > 0 and _is_new(p, end))
    exposed = _exposed(live)
    killed_at = monotonic()
    plane.kill()
    took = None
    if exposed:
        say(f"control plane killed (-9) with a candidate live on {exposed} agents: nobody tells them to stop")
        home = await _until(watcher, show, stop, LEASE_SECONDS, _is_home)
        took = monotonic() - killed_at if _is_home(home) else None
    if took is not None:
        say(f"every agent is back on its incumbent by itself {took:.1f} s after the kill: leases ended")
    return LastAct(
        bad_candidate=bad,
        outcome=None if end is None else f"{end.status.outcome}({end.status.reason})",
        breaker_scaled_seconds=_breaker_seconds(end),
        killed_with_candidates=exposed,
        home_after_wall_seconds=took,
        bad_state=_state(tripped),
        gentle_state=_state(live),
    )


async def _until(
    watcher: Watcher, show: Show, stop: asyncio.Event, seconds: float, done: Callable[[Picture], bool]
) -> Picture:
    """Show pictures until one fits, the time is over, or the user stops."""
    deadline = monotonic() + seconds
    while True:
        picture = await watcher.look()
        show(picture, TITLE)
        if done(picture) or monotonic() > deadline or stop.is_set():
            return picture
        await asyncio.sleep(LOOK_SECONDS)


def resized(incumbent: CacheConfig, bounds: QuantityRange | None, factor: float) -> CacheConfig:
    """The incumbent's host memory times a factor, within the policy's bounds and largest step.

    At the upper bound a larger one becomes a smaller one, so that it differs from the incumbent at all.
    """
    size = point(incumbent).get(Knob.HOST_MEMORY)
    if size is None or bounds is None:
        return incumbent
    step = max(factor, 1 / factor, 1.0)
    step = min(step, bounds.largest_step * (1 - 2**-10))
    wanted = size * step if factor > 1 else size / step
    if wanted > bounds.max.bytes:
        wanted = size / step
    return config({Knob.HOST_MEMORY: max(wanted, bounds.min.bytes)})


def _state(picture: Picture) -> str:
    """What the control plane is doing, for a sentence about what was not seen."""
    status = picture.policy.status if picture.policy else None
    doing = ": ".join(filter(None, (status.phase, status.waiting_for))) if status else "starting"
    if (running := picture.experiment) is None:
        return f"no experiment was running ({doing})"
    return f"{running.metadata.name} was running on {_exposed(picture)} agents ({doing})"


def _new_end(picture: Picture, known: set[str]) -> KVCacheExperiment | None:
    return next((e for e in picture.ended if e.metadata.name not in known), None)


def _is_new(picture: Picture, before: KVCacheExperiment | None) -> bool:
    running = picture.experiment
    if running is None or running.status.phase not in (Phase.WASHOUT, Phase.MEASURING):
        return False
    return before is None or running.metadata.name != before.metadata.name


def _exposed(picture: Picture) -> int:
    reports = picture.agents.values()
    return sum(isinstance(r, Report) and r.running.role is Role.CANDIDATE for r in reports)


def _is_home(picture: Picture) -> bool:
    """Whether all agents answer and none runs a candidate."""
    return _exposed(picture) == 0 and all(isinstance(r, Report) for r in picture.agents.values())


def _breaker_seconds(end: KVCacheExperiment | None) -> float | None:
    if end is None or end.status.breach is None:
        return None
    return end.status.breach.at - end.status.started_at
