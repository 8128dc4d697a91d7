"""The control plane as one local process: composition root of `kvtune up`. No decisions here.

State lies in a locked directory, agents are reached over HTTP, time comes from this machine's clock.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import assert_never

from kvtune_api.errors import Problem, SpecError
from kvtune_api.policy import KVCachePolicy
from kvtune_api.wire import Report
from kvtune_operator.adapters.agents import HttpAgents, TokenFile, exposes_token
from kvtune_operator.adapters.event_files import FileEvents
from kvtune_operator.adapters.fetch import Fetcher, Trust, fetching, trusting
from kvtune_operator.adapters.files import FileObjects
from kvtune_operator.adapters.scrape import ScrapeMetrics
from kvtune_operator.adapters.source_adapters import SourceAdapters, instance
from kvtune_operator.clock import WallClock
from kvtune_operator.fencing import believed, next_token
from kvtune_operator.health import Vitals, create_app, served
from kvtune_operator.observed import ObservedAgents, ObservedClock, ObservedMetrics, ObservedObjects, Pulse
from kvtune_operator.policy_file import PolicyFile
from kvtune_operator.ports import Agents, House, Metrics
from kvtune_operator.reconcile import Reconciler, RunEnd
from kvtune_operator.settings import Settings
from kvtune_operator.sources import ADDRESS_LABEL, SourcesOf
from kvtune_operator.standalone_house import StandaloneHouse
from kvtune_operator.statedir import Locked, StateDir, keep_token, previous_token
from kvtune_operator.telemetry import Telemetry

log = logging.getLogger(__name__)

STOPPED, FENCED = 0, 7
"""Results of `run_standalone`; FENCED is the command line's exit code of that name."""

LOCK_ATTEMPTS = 5
LOCK_PAUSE_WALL_SECONDS = 0.1
"""A `kvtune status` looks at the lock for a moment; that must not keep a control plane from starting."""


async def run_standalone(
    settings: Settings,
    policy_document: KVCachePolicy,
    stop: asyncio.Event,
    *,
    say: Callable[[str], None] = log.info,
) -> int:
    """Run the loop until `stop` is set, the policy's file is gone, or a newer control plane fences this one.

    Returns STOPPED or FENCED.

    Raises `SpecError` (addresses, metrics), `Locked`, `Corrupt` (state files) and `Unavailable` (disk,
    token, port) before anything is pushed.
    """
    clock = WallClock(origin=settings.origin, speed=settings.speed)
    state = StateDir(settings.state_dir)
    objects = await _held(state, settings, clock)
    try:
        events = FileEvents(state.events)
        policy = await objects.apply_policy(policy_document)
        async with contextlib.AsyncExitStack() as stack:
            fetcher = await stack.enter_async_context(_fetcher(settings))
            agents = _agents(settings, fetcher)
            await _check_addresses(settings, policy, agents)
            root = _Root(settings=settings, clock=clock, objects=objects, events=events, say=say)
            house = await stack.enter_async_context(root.house(ScrapeMetrics(fetcher)))
            house.sources(policy)
            token = await _new_token(state, policy, agents, clock)
            say(f"state directory {state.path}, fencing token {token}")
            end = await root.run(policy, agents, house, token=token, stop=stop)
            say(_farewell(end, policy))
        return FENCED if end is RunEnd.FENCED else STOPPED
    finally:
        objects.close()


@contextlib.asynccontextmanager
async def agent_ports(
    addresses: Sequence[str],
    token_file: Path,
    *,
    timeout_seconds: float = 2.0,
    ca_file: Path | None = None,
    insecure: bool = False,
) -> AsyncIterator[tuple[Agents, Metrics]]:
    """Open the ports to some agents, for who looks at them beside a control plane (the demo)."""
    trust = _trust(ca_file)
    async with fetching(timeout_seconds=timeout_seconds, trust=lambda: trust) as fetcher:
        agents = HttpAgents(fetcher, TokenFile(token_file), addresses=addresses, insecure=insecure)
        yield agents, ScrapeMetrics(fetcher)


def _farewell(end: RunEnd, policy: KVCachePolicy) -> str:
    match end:
        case RunEnd.STOPPED:
            return "stopped, incumbents are in force"
        case RunEnd.HANDED_OVER:
            return "stopped, left as it was"
        case RunEnd.UNCONFIRMED:
            return "stopped, but not every agent has confirmed its incumbent: candidates end with their lease"
        case RunEnd.REMOVED:
            return f"policy {policy.metadata.name} was removed: all agents keep their incumbents"
        case RunEnd.FENCED:
            return "a newer control plane has taken over these agents; this one stops"
        case _:
            assert_never(end)


class _Root:
    """The parts of one run that do not change."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: WallClock,
        objects: FileObjects,
        events: FileEvents,
        say: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._objects = objects
        self._events = events
        self._say = say
        self._telemetry = Telemetry()
        self._pulse = Pulse(started=clock.monotonic())

    @contextlib.asynccontextmanager
    async def house(self, scrape: Metrics) -> AsyncIterator[House]:
        """The policy's sources: agents by themselves, or a Prometheus that scrapes their addresses."""
        clock = WallClock()
        adapters = SourceAdapters(label_of=instance, now=clock.now, monotonic=clock.monotonic)
        sources = SourcesOf(
            scrape=ObservedMetrics(scrape, self._telemetry),
            prometheus=lambda source, place: ObservedMetrics(
                adapters.prometheus(source, place), self._telemetry
            ),
            pyroscope=adapters.pyroscope,
            pod_label=ADDRESS_LABEL,
        )
        try:
            yield StandaloneHouse(sources, speed=self._settings.speed)
        finally:
            await adapters.close()

    async def run(
        self,
        policy: KVCachePolicy,
        agents: HttpAgents,
        house: House,
        *,
        token: int,
        stop: asyncio.Event,
    ) -> RunEnd:
        """Reconcile until told to stop, beside the health endpoint and the look at the policy's file."""
        telemetry = self._telemetry
        reconciler = Reconciler(
            agents=ObservedAgents(agents, telemetry),
            house=house,
            objects=ObservedObjects(self._objects, self._pulse, telemetry),
            events=self._events,
            clock=ObservedClock(self._clock, self._pulse, telemetry, self._clock.monotonic),
            token=token,
            settings=self._settings,
        )
        async with self._health(), self._following(policy):
            return await reconciler.run(policy.metadata.name, stop)

    @contextlib.asynccontextmanager
    async def _health(self) -> AsyncIterator[None]:
        settings = self._settings
        if settings.health_port is None:
            yield
            return
        vitals = Vitals(
            pulse=self._pulse,
            telemetry=self._telemetry,
            monotonic=self._clock.monotonic,
            stuck_after_seconds=settings.stuck_after_seconds,
        )
        async with served(create_app(vitals), settings.health_host, settings.health_port) as address:
            self._say(f"health and metrics on {address}/healthz, {address}/metrics")
            yield

    @contextlib.asynccontextmanager
    async def _following(self, policy: KVCachePolicy) -> AsyncIterator[None]:
        """Follow the policy's file, if there is one."""
        path = self._settings.policy_file
        if path is None:
            yield
            return
        file = PolicyFile(
            path, policy, store=self._objects, events=self._events, clock=self._clock, say=self._say
        )
        following = asyncio.create_task(file.follow(self._settings.tick_seconds))
        try:
            yield
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following


async def _held(state: StateDir, settings: Settings, clock: WallClock) -> FileObjects:
    for _ in range(LOCK_ATTEMPTS - 1):
        with contextlib.suppress(Locked):
            return FileObjects(state, history_limit=settings.history_limit)
        await clock.sleep(LOCK_PAUSE_WALL_SECONDS * settings.speed)
    return FileObjects(state, history_limit=settings.history_limit)


def _fetcher(settings: Settings) -> contextlib.AbstractAsyncContextManager[Fetcher]:
    """One fetcher for all agents."""
    trust = _trust(settings.ca_file)
    return fetching(
        timeout_seconds=settings.http_timeout_seconds, parallel=settings.http_parallel, trust=lambda: trust
    )


def _trust(ca_file: Path | None) -> Trust:
    return Trust(context=trusting(str(ca_file)) if ca_file is not None else None)


def _agents(settings: Settings, fetcher: Fetcher) -> HttpAgents:
    token = TokenFile(settings.token_file)
    token.read()
    return HttpAgents(fetcher, token, addresses=settings.agents, insecure=settings.insecure)


async def _check_addresses(settings: Settings, policy: KVCachePolicy, agents: HttpAgents) -> None:
    addresses = (await agents.discover(policy)).agents
    if not addresses:
        text = "is empty and no agents were given: a standalone control plane needs the agents' addresses"
        raise SpecError(Problem("spec.selector.addresses", text))
    exposed = [] if settings.insecure else [why for name in addresses if (why := exposes_token(name))]
    if exposed:
        raise SpecError(*(Problem("", why) for why in exposed))


async def _new_token(state: StateDir, policy: KVCachePolicy, agents: HttpAgents, clock: WallClock) -> int:
    """A token above all earlier ones, stored before it is used."""
    reports = await agents.reports((await agents.discover(policy)).agents)
    held = {name: report.running.token for name, report in reports.items() if isinstance(report, Report)}
    now = clock.unix_milliseconds()
    token = next_token(previous_token(state), believed(held, now), now)
    keep_token(state, token)
    return token
