"""One agent: an engine, the configuration it holds, and the files that outlive it.

Called by app.py for every request and by lease.py for every beat. Decisions are in apply.py.
"""

import asyncio
import logging
from collections import Counter
from contextlib import ExitStack

from kvtune_agent.apply import AlreadyThere, Applied, Held, Refused, decide, lapsed, running, whole
from kvtune_agent.clock import Clock
from kvtune_agent.engine import Engine, Missed, Snapshot
from kvtune_agent.engines.replay import ReplayEngine
from kvtune_agent.engines.translate import OWN
from kvtune_agent.exits import StateUnavailable
from kvtune_agent.incumbent import Kept, StateDir, kept, open_state_dir, restored
from kvtune_agent.lessons import LessonsFile
from kvtune_agent.recording import Recorder
from kvtune_agent.settings import AgentSettings
from kvtune_agent.tokens import TokenFile
from kvtune_api.errors import Corrupt, Problem, SpecError, Unavailable
from kvtune_api.wire import Push, Report, Role, Running
from kvtune_cache.constants import PRESETS, EngineConstants
from kvtune_cache.guard import GuardRules

log = logging.getLogger(__name__)

STATE_UNAVAILABLE = "StateUnavailable"
INVALID = "Invalid"
ALIVE_SECONDS = 5.0
"""Without a heartbeat for so many wall seconds an agent is not ready."""


class Agent:
    """Hold what one engine runs. Not thread-safe: it lives in one event loop."""

    def __init__(
        self,
        *,
        name: str,
        engine: Engine,
        clock: Clock,
        state: StateDir,
        lessons: LessonsFile,
        kept: Kept | None,
        held: Held,
        recorder: Recorder | None = None,
    ) -> None:
        self.name = name
        self._recorder = recorder
        self.lessons = lessons
        self.engine = engine
        self.clock = clock
        self.refused: Counter[str] = Counter()
        self._state = state
        self._held = held
        self._kept = kept
        self._pushing = asyncio.Lock()
        self._beat_at: float | None = None

    @property
    def held(self) -> Held:
        """What it holds."""
        return self._held

    def running(self) -> Running:
        """What it runs now."""
        self._lapse()
        return running(self._held, self.clock.monotonic())

    async def push(self, push: Push) -> Running | Refused:
        """Take a push or refuse it; when this returns what it runs, that is on disk and in force."""
        async with self._pushing:
            decision = self._decide(push)
            if isinstance(decision, Refused):
                return decision
            refused = await self._save(decision.held)
            if refused is not None:
                return refused
            decision = self._decide(push)  # again, because a lease may have run out meanwhile
            if isinstance(decision, Refused):
                return decision
            self._put_in_force(decision.held)
            return self.running()

    def report(self, at: float | None = None) -> Report:
        """What it runs, supports and has counted: at the grid time `at`, else at the newest closed one."""
        found: Snapshot | Missed
        found = self.engine.at(at) if at is not None else self.engine.newest() or Missed.NOT_YET
        return Report(
            agent=self.name,
            version=self.engine.version,
            engine=self.engine.name,
            clock=self.clock.now(),
            started_at=self.engine.started_at,
            running=self.running(),
            supports=self.engine.supports,
            geometry=self.engine.geometry,
            load=self.engine.load(),
            counters=found.counters if isinstance(found, Snapshot) else None,
            missing=str(found) if isinstance(found, Missed) else None,
            reuse=self.engine.reuse(),
            fallback=self.engine.fallback,
        )

    def beat(self) -> None:
        """Return to the incumbent if a lease has run out, and let the engine notice the time."""
        self._lapse()
        self.engine.follow()
        self._beat_at = self.clock.monotonic()

    def restore_policy(self) -> Report:
        """Run the eviction policy asked for again, if it has fallen back to LRU; tell how it is now."""
        if self.engine.restore():
            log.info("eviction policy restored on command", extra=self._where(self._held))
        return self.report()

    def is_alive(self) -> bool:
        """Whether the heartbeat beats."""
        return self._beat_at is not None and self.clock.monotonic() - self._beat_at < ALIVE_SECONDS

    def close(self) -> None:
        """Give the state directory back, and end the recording."""
        self._state.close()
        if self._recorder is not None:
            self._recorder.close()

    def _decide(self, push: Push) -> Applied | AlreadyThere | Refused:
        self._lapse()
        decision = decide(self._held, push, now=self.clock.monotonic(), supports=self.engine.supports)
        if isinstance(decision, Applied):
            try:
                self.engine.check(push.config)
            except SpecError as error:
                return Refused(status=422, reason=INVALID, message=str(error))
        return decision

    async def _save(self, wanted: Held) -> Refused | None:
        """Put on disk what outlives the process, if that changes.

        A return to the held incumbent never waits for a disk.
        """
        keep = kept(wanted)
        if keep == self._kept:
            return None
        try:
            await asyncio.to_thread(self._state.save, keep)
        except StateUnavailable as error:
            if wanted.candidate is None and wanted.incumbent == self._held.incumbent:
                log.warning("fence not saved", extra={"agent": self.name, "error": str(error)})
                return None
            return Refused(status=503, reason=STATE_UNAVAILABLE, message=f"{error}; nothing has changed")
        self._kept = keep
        return None

    def _lapse(self) -> None:
        held = lapsed(self._held, self.clock.monotonic())
        if held is not self._held:
            log.warning("lease lapsed", extra=self._where(held))
            self._put_in_force(held)

    def _put_in_force(self, held: Held) -> None:
        before = self._held
        if held.fallback_rules != before.fallback_rules:
            self.engine.fall_back_by(held.fallback_rules)
        if held.config != before.config:
            self.engine.apply(held.config)
        self._held = held
        if held.config != before.config:
            role = Role.INCUMBENT if held.candidate is None else Role.CANDIDATE
            log.info("configuration changed", extra={**self._where(held), "role": role})

    def _where(self, held: Held) -> dict[str, object]:
        """Fields of every log line about what is held: several agents may share a terminal."""
        return {"agent": self.name, "generation": held.fence.generation}


def open_agent(settings: AgentSettings, clock: Clock) -> Agent:
    """Make an agent on the incumbent of its state directory, or else on its start configuration.

    Raises `SpecError` for settings that do not fit the engine, `StateUnavailable`, and `Corrupt` for a file
    of the state directory that cannot be read or run."""
    with ExitStack() as undone:
        recorder = _recorder(settings, clock)
        if recorder is not None:
            undone.callback(recorder.discard)
        engine = _engine(settings, clock, recorder)
        state = open_state_dir(settings.state_dir)
        undone.callback(state.close)
        lessons = LessonsFile(settings.name, settings.state_dir, engine)
        kept = state.load()
        start = whole(settings.config, OWN)
        held = restored(kept, start) if kept is not None else Held(incumbent=start)
        lessons.teach()
        if kept is not None:
            _run_restored(engine, held, state)
            log.info(
                "incumbent restored", extra={"agent": settings.name, "generation": held.fence.generation}
            )
        undone.pop_all()
    return Agent(
        name=settings.name,
        engine=engine,
        clock=clock,
        state=state,
        lessons=lessons,
        kept=kept,
        held=held,
        recorder=recorder,
    )


def _engine(settings: AgentSettings, clock: Clock, recorder: Recorder | None) -> ReplayEngine:
    return ReplayEngine(
        _constants(settings),
        settings.config,
        clock,
        keep_seconds=settings.kept_seconds,
        guard=GuardRules(quiet_seconds=settings.return_after_seconds),
        record=recorder.served if recorder is not None else None,
    )


def _recorder(settings: AgentSettings, clock: Clock) -> Recorder | None:
    if settings.record_dir is None:
        return None
    tokens = _constants(settings).block_tokens
    return Recorder(settings.record_dir, settings.name, started_at=clock.now(), block_tokens=tokens)


def _constants(settings: AgentSettings) -> EngineConstants:
    constants = PRESETS.get(settings.preset)
    if constants is None:
        raise SpecError(Problem("preset", f"{settings.preset!r} is not one of {', '.join(sorted(PRESETS))}"))
    return constants


def _run_restored(engine: Engine, held: Held, state: StateDir) -> None:
    try:
        engine.check(held.incumbent)
    except SpecError as error:
        raise Corrupt(f"{state.file} line 1: the engine cannot run this incumbent: {error}") from error
    engine.apply(held.incumbent)
    engine.fall_back_by(held.fallback_rules)


def token_file(settings: AgentSettings) -> TokenFile:
    """The token of an agent's writes; warns at once when there is none yet."""
    tokens = TokenFile(settings.token_file)
    try:
        tokens.read()
    except Unavailable as error:
        log.warning("no token yet", extra={"agent": settings.name, "error": str(error)})
    return tokens
