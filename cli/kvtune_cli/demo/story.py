"""The demo's acts in order: start, experiments, the last act, and the end that always restores everything."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rich.console import Console
from rich.live import Live

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.knobs import CacheConfig
from kvtune_api.names import ConditionType, Reason
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import Truth
from kvtune_api.wire import GRID_SECONDS, Report, Role
from kvtune_cli.demo.fleet import (
    Fleet,
    new_fleet,
    start_agents,
    start_control_plane,
    start_driver,
    wait_for_prefill,
)
from kvtune_cli.demo.lag import behind
from kvtune_cli.demo.last_act import LastAct, play_last_act
from kvtune_cli.demo.options import PREFILL_SECONDS, DemoOptions
from kvtune_cli.demo.policy import demo_policy, start_config, written
from kvtune_cli.demo.processes import Child, Children
from kvtune_cli.demo.screen import line, screen
from kvtune_cli.demo.watching import Figures, Picture, Watcher
from kvtune_operator.ports import Unreachable
from kvtune_operator.standalone import agent_ports
from kvtune_tuner.draft import condition

LOOK_SECONDS = 0.25
FIGURES_SECONDS = 300.0
"""Figures before and after are of five scaled minutes each."""

RESTORE_SECONDS = 30.0
FEEDING_LINE_SECONDS = 5
NOTHING_MORE = (Reason.NOTHING_TO_TRY, Reason.BUDGET, Reason.UNDERPOWERED, Reason.TOO_LONG)
"""Reasons for resting after which the demo has seen all it will see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What happened in a run."""

    options: DemoOptions
    policy: KVCachePolicy
    start: CacheConfig
    before: Figures
    after: Figures
    experiments: tuple[KVCacheExperiment, ...]
    """Those of the main act."""

    resting: str
    """Why no further experiment started."""

    last_act: LastAct | None
    restored: bool
    """Whether every agent was seen on its incumbent at the end."""

    scaled_seconds: float
    largest_lag_scaled_seconds: float | None = None
    """How far the slowest agent was behind the scaled clock at worst; None when no agent had counters."""


class Interrupted(Exception):
    """Say that the user stopped the demo; `restored` tells whether all incumbents are back."""

    def __init__(self, *, restored: bool) -> None:
        super().__init__("interrupted")
        self.restored = restored


class Stage:
    """Shows pictures: a live screen on a terminal, a line at each change elsewhere."""

    def __init__(self, options: DemoOptions, console: Console, live: Live | None) -> None:
        self._options = options
        self._console = console
        self._live = live
        self._last = ""
        self._behind_said = 0.0

    def show(self, picture: Picture, title: str) -> None:
        """Show one picture."""
        if self._live is not None:
            rows = self._console.size.height
            self._live.update(screen(picture, self._options, title, rows=rows))
            return
        self._say_behind(picture.behind_scaled_seconds)
        text = line(picture)
        if text != self._last:
            self._last = text
            self.say(f"{picture.elapsed:8,.0f} s  {text}")

    def _say_behind(self, seconds: float | None) -> None:
        """Say that agents are behind: once, and again each time it has doubled."""
        if seconds is None or seconds < 2 * self._behind_said:
            return
        self._behind_said = seconds
        self.say(behind(seconds, self._options.speed))

    def say(self, text: str) -> None:
        """Say one sentence beside the picture."""
        (self._live.console if self._live is not None else self._console).print(
            text, highlight=False, markup=False, soft_wrap=self._live is None
        )


async def tell(options: DemoOptions, console: Console, stop: asyncio.Event) -> Told:
    """Play the whole demo. Raises `Interrupted` after `stop` was set, `Unavailable` when a part fails."""
    policy = demo_policy(options)
    policy = replace(policy, metadata=replace(policy.metadata, uid=f"demo-seed-{options.seed}"))
    start = start_config(policy)
    async with Children(options.directory / "logs") as children:
        fleet = new_fleet(options, children, written(policy))
        console.print(f"starting {options.agents} agents with the replay engine ...", highlight=False)
        fleet = replace(fleet, addresses=await start_agents(fleet, start))
        async with _feeding(options, console):
            driver = await start_driver(fleet)
            plane = await start_control_plane(fleet, "control-plane", ends_at=_iso(fleet.end))
            await wait_for_prefill(driver)
        async with agent_ports(fleet.addresses, fleet.token_file) as (agents, metrics):
            watcher = Watcher(fleet, agents, metrics)
            play = _Play(
                options=options, policy=policy, start=start, fleet=fleet, watcher=watcher, plane=plane
            )
            if not options.live:
                return await play.acts(Stage(options, console, None), stop)
            with Live(console=console, refresh_per_second=4, transient=True) as live:
                return await play.acts(Stage(options, console, live), stop)


@contextlib.asynccontextmanager
async def _feeding(options: DemoOptions, console: Console) -> AsyncIterator[None]:
    """Show how long the feeding has taken: a spinner on a terminal, else a line now and then."""
    text = f"feeding {PREFILL_SECONDS:,.0f} scaled seconds of traffic ..."
    begun = asyncio.get_running_loop().time()

    async def tick_with(show: Callable[[str], None], every: int) -> None:
        while True:
            await asyncio.sleep(every)
            show(f"{text} {asyncio.get_running_loop().time() - begun:.0f} s")

    if not options.live:
        console.print(text, highlight=False)
    with console.status(text) if options.live else contextlib.nullcontext() as status:
        if status is not None:
            ticking = asyncio.create_task(tick_with(status.update, 1))
        else:
            ticking = asyncio.create_task(tick_with(console.print, FEEDING_LINE_SECONDS))
        try:
            yield
        finally:
            ticking.cancel()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Play:
    """One run once traffic flows."""

    options: DemoOptions
    policy: KVCachePolicy
    start: CacheConfig
    fleet: Fleet
    watcher: Watcher
    plane: Child
    """The control plane of the main act."""

    async def acts(self, stage: Stage, stop: asyncio.Event) -> Told:
        fleet, options, plane = self.fleet, self.options, self.plane
        before = await self._figures(min(fleet.origin, await self.watcher.newest()))
        resting = await self._main_act(stage, stop, plane)
        stage.say("the main act is over: stopping the control plane, which restores every agent")
        await plane.end(seconds=RESTORE_SECONDS)
        ended = (await self.watcher.look()).ended
        after = await self._figures(await self.watcher.newest())
        seconds = fleet.elapsed()
        last = None
        if options.last_act:
            last = await play_last_act(fleet, self.watcher, stage.show, stage.say, stop)
        if stop.is_set():
            raise Interrupted(restored=await self._restored())
        return Told(
            options=options,
            policy=self.policy,
            start=self.start,
            before=before,
            after=after,
            experiments=ended,
            resting=resting,
            last_act=last,
            restored=await self._restored(),
            scaled_seconds=seconds,
            largest_lag_scaled_seconds=self.watcher.largest_lag,
        )

    async def _figures(self, end: float) -> Figures:
        """The pool's figures of the five scaled minutes before a moment."""
        end = end // GRID_SECONDS * GRID_SECONDS
        return await self.watcher.figures_between(end - FIGURES_SECONDS, end, self.policy.spec)

    async def _main_act(self, stage: Stage, stop: asyncio.Event, plane: Child) -> str:
        """Watch the experiments; return why no further one started."""
        while True:
            picture = await self.watcher.look()
            stage.show(picture, "kvtune demo")
            if stop.is_set():
                await plane.end(seconds=RESTORE_SECONDS)
                raise Interrupted(restored=await self._restored())
            if not plane.alive:
                return f"the control plane ended: {plane.last_words()}"
            if (why := nothing_more(picture, self.options)) is not None:
                return why
            await asyncio.sleep(LOOK_SECONDS)

    async def _restored(self) -> bool:
        """Whether every agent runs its incumbent; waits for leases to end if need be."""
        deadline = asyncio.get_running_loop().time() + RESTORE_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            if all_on_incumbent((await self.watcher.look()).agents.values()):
                return True
            await asyncio.sleep(LOOK_SECONDS)
        return False


def all_on_incumbent(reports: Iterable[Report | Unreachable]) -> bool:
    """Whether all agents answer and none runs a candidate."""
    return all(isinstance(r, Report) and r.running.role is Role.INCUMBENT for r in reports)


def nothing_more(picture: Picture, options: DemoOptions) -> str | None:
    """Why the main act is over; None while there is more to see."""
    status = picture.policy.status if picture.policy else None
    if status is None or picture.experiment is not None:
        return None
    if picture.elapsed >= options.scaled_seconds:
        return "the time of the main act is over"
    resting = condition(status, ConditionType.EXPERIMENTING)
    if resting is None or resting.status is not Truth.FALSE or resting.reason not in NOTHING_MORE:
        return None
    return f"{resting.reason}: {resting.message}"


def _iso(scaled: float) -> str:
    return datetime.fromtimestamp(scaled, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")
