"""One collection of the API, kept in memory by list and watch.

The informer of the `kubernetes` package was looked at: it is synchronous (threads), keeps whole models, and
has no timeout on its watch. Here a record is a few fields, a watch is bounded, and a silent API server shows:
what is kept has an age, and is refused when that is too great. Missing is not zero: an API server that does
not answer must never look like pods that have left.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from kvtune_api.errors import KvtuneError, Unavailable
from kvtune_operator.adapters.kube_errors import Gone, NotAllowed, Overloaded

log = logging.getLogger(__name__)


class Named(Protocol):
    """What every record has."""

    @property
    def name(self) -> str:
        """Unique in its collection."""
        ...


R = TypeVar("R", bound=Named)
S = TypeVar("S")
Json = dict[str, Any]
LONGEST_PAUSE_SECONDS = 30.0
SHORTEST_WATCH_SECONDS = 1.0
"""A watch that ends earlier counts as a failure, or this would be a tight loop."""

RELIST_AFTER_FAILURES = 3
"""The server may have been restored from a backup, and know nothing of our version any more."""


class Lister(Protocol):
    """The part of `kube.Kube` that is used here."""

    async def reduced(self, path: str, read: Callable[[Json], S]) -> tuple[tuple[S, ...], str]:
        """What `read` makes of every item, and the resource version to watch from."""
        ...

    def watch(self, path: str, *, resource_version: str, seconds: float) -> AsyncIterator[tuple[str, Json]]:
        """Changes since a version; ends after so many seconds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long things may take, wall seconds."""

    watch_seconds: float = 30.0
    """A watch is asked anew after this: a connection that is cut without a word is noticed then."""

    relist_seconds: float = 600.0
    """What is kept is read whole after this, whatever the watch said."""

    stale_seconds: float = 90.0
    """What is kept counts as unknown when the API server was not heard for this long."""

    first_seconds: float = 10.0
    """Whoever asks first waits this long for the first list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """Monotonic time and sleep, wall seconds."""

    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Kept(Generic[R]):
    """Records of one collection by name. `run` keeps them; everything else reads."""

    def __init__(
        self, kube: Lister, path: str, read: Callable[[Json], R], timer: Timer, patience: Patience
    ) -> None:
        self._kube = kube
        self._path = path
        self._read = read
        self._timer = timer
        self._patience = patience
        self._records: dict[str, R] = {}
        self._version = ""
        self._listed_at: float | None = None
        self._failures = 0
        self._settled = asyncio.Event()
        self.synced_at: float | None = None
        """When the API server was last heard about this collection (monotonic), None: never."""

        self.forbidden = ""
        """The right that was lacking at the last try, or empty."""

        self.trouble = ""
        """What failed at the last try, or empty."""

    async def records(self) -> Mapping[str, R]:
        """What is kept; raise `Unavailable` when it was never read or is too old.

        Raises `NotAllowed` where that is for want of a right. Not to be held over an await.
        """
        if not self._settled.is_set():
            try:
                async with asyncio.timeout(self._patience.first_seconds):
                    await self._settled.wait()
            except TimeoutError as error:
                raise Unavailable(f"{self._path}: not read yet ({self.trouble or 'no answer'})") from error
        if self.synced_at is None:
            raise NotAllowed(self.forbidden or self.trouble)
        age = self._timer.monotonic() - self.synced_at
        if age > self._patience.stale_seconds and self.forbidden:
            raise NotAllowed(self.forbidden)
        if age > self._patience.stale_seconds:
            why = self.trouble or "no answer"
            raise Unavailable(f"{self._path}: last heard of {age:.0f} s ago: {why}")
        return self._records

    def record(self, name: str) -> R | None:
        """One record, however old; None when there is none."""
        return self._records.get(name)

    async def run(self) -> NoReturn:
        """Keep the records until cancelled."""
        while True:
            pause = await self._round()
            if pause > 0:
                await self._timer.sleep(pause)

    async def _round(self) -> float:
        """List where that is due, else watch for a while; seconds to wait before the next round."""
        began = self._timer.monotonic()
        try:
            if self._due(began):
                await self._list()
                return 0.0
            await self._watch()
        except Gone:
            self._listed_at = None
            self._failures += 1
            return self._pause() if self._failures > 1 else 0.0
        except (KvtuneError, AttributeError, LookupError, TypeError, ValueError) as error:
            return self._failed(error)
        if self._timer.monotonic() - began < SHORTEST_WATCH_SECONDS:
            return self._failed(Unavailable(f"watch {self._path}: ended at once"))
        self._worked()
        return 0.0

    def _due(self, now: float) -> bool:
        """Whether to list: not where only the right to watch is lacking, for that must show."""
        if self._listed_at is None:
            return True
        return not self.forbidden and now - self._listed_at > self._patience.relist_seconds

    async def _list(self) -> None:
        """Replace everything: what was deleted while nobody watched vanishes."""
        began = self._timer.monotonic()
        found, self._version = await self._kube.reduced(self._path, self._read)
        self._records = {record.name: record for record in found}
        self._listed_at = self.synced_at = began
        self.trouble = self.forbidden = ""
        self._settled.set()

    async def _watch(self) -> None:
        """Follow changes until the watch ends."""
        async for kind, found in self._kube.watch(
            self._path, resource_version=self._version, seconds=self._patience.watch_seconds
        ):
            name = found["metadata"].get("name", "")
            if kind == "DELETED":
                self._records.pop(name, None)
            elif kind != "BOOKMARK":
                self._records[name] = self._read(found)
            self._version = found["metadata"]["resourceVersion"]
            self._worked()

    def _worked(self) -> None:
        if self.trouble:
            log.info("watch works again", extra={"path": self._path})
        self.synced_at = self._timer.monotonic()
        self._failures, self.trouble, self.forbidden = 0, "", ""

    def _failed(self, error: Exception) -> float:
        text = str(error) if isinstance(error, KvtuneError) else f"{self._path}: unexpected answer: {error!r}"
        if text != self.trouble:
            log.warning("watch failed", extra={"path": self._path, "error": text})
        self.trouble = text
        self.forbidden = text if isinstance(error, NotAllowed) else ""
        if self.forbidden:
            self._settled.set()
        self._failures += 1
        if self._failures >= RELIST_AFTER_FAILURES and not self.forbidden:
            self._listed_at = None
        asked = error.retry_after_seconds if isinstance(error, Overloaded) else None
        return max(self._pause(), asked or 0.0)

    def _pause(self) -> float:
        return float(min(LONGEST_PAUSE_SECONDS, 2 ** min(self._failures - 1, 10)))
