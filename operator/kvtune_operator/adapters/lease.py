"""Hold the operator's Lease (coordination.k8s.io/v1): one replica works, the others stand by.

A lease is lost when it could not be renewed before a deadline that is shorter than its duration: by then no
other replica can have taken it. Clocks of other machines are never compared: a holder counts as gone when its
record has not changed for the lease's duration as seen from here, and a standby as there while its annotation
keeps changing. Only GET, POST and PUT with a resource version are used.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kvtune_api.errors import Conflict, Unavailable
from kvtune_api.names import ANNOTATION_STANDBY
from kvtune_operator.adapters.lease_record import (
    LeaseSettings,
    annotated,
    annotations,
    released,
    renewal,
    stamp,
    taken,
    token_of,
)
from kvtune_operator.fencing import next_token

log = logging.getLogger(__name__)

API = "/apis/coordination.k8s.io/v1"
RELEASE_ATTEMPTS = 3
LEAST_SECONDS = 0.1
"""Even a late renewal is tried: when it succeeds, nobody has taken the lease."""

STANDBY_KEPT = 3
"""A standby that has not written for so many of its intervals counts as gone."""


class LeaseLost(Unavailable):
    """Another replica may hold the lease now: stop everything at once."""


class Store(Protocol):
    """The calls of `Kube` that a lease needs."""

    async def get(self, path: str) -> dict[str, Any] | None:
        """Read; None when there is none."""
        ...

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create; raise `Conflict` when it exists."""
        ...

    async def replace(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Replace; raise `Conflict` when it was written since."""
        ...


class Times(Protocol):
    """The machine's clock."""

    def monotonic(self) -> float:
        """Wall seconds that never go back."""
        ...

    def unix_milliseconds(self) -> int:
        """Time since 1970."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Flag(Protocol):
    """An event that says: stop."""

    def is_set(self) -> bool:
        """Whether it is time."""
        ...


@dataclass(slots=True)
class _Sighting:
    """A value, and since when it has been the same (monotonic seconds)."""

    value: object
    since: float


class Lease:
    """One replica's view of the lease."""

    def __init__(self, store: Store, settings: LeaseSettings, clock: Times) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._path = f"{API}/namespaces/{settings.namespace}/leases"
        self._mine: dict[str, Any] | None = None
        self._renewed = 0.0
        self._record: _Sighting | None = None
        self._standby: _Sighting | None = None
        self._standby_changed = False
        self._signed: float | None = None

    @property
    def held(self) -> bool:
        """Whether the lease was ours when last heard of."""
        return self._mine is not None

    async def acquire(self, stop: Flag) -> bool:
        """Stand by until the lease is ours; False when told to stop first."""
        trouble = ""
        while not stop.is_set():
            try:
                if await self._try():
                    return True
                trouble = ""
            except Unavailable as error:
                if str(error) != trouble:
                    log.warning("cannot read or take the lease, waiting", extra={"error": str(error)})
                trouble = str(error)
            await self._clock.sleep(self._until_next_look())
        return False

    async def keep(self) -> None:
        """Renew for ever; raise `LeaseLost` when that fails for too long, or another replica holds it."""
        while True:
            await self._clock.sleep(self._settings.retry_seconds)
            left = self.left_seconds()
            try:
                async with asyncio.timeout(max(left, LEAST_SECONDS)):
                    await self.renew()
            except TimeoutError as error:
                self._mine = None
                text = f"lease not renewed for {self._settings.deadline_seconds:g} s: no answer"
                raise LeaseLost(text) from error

    async def renew(self) -> None:
        """Renew once. Raises `LeaseLost`; what may pass is only logged."""
        try:
            await self._write(self._mine_now())
        except Unavailable as error:
            if isinstance(error, LeaseLost):
                raise
            left = self.left_seconds()
            if left <= 0:
                self._mine = None
                text = f"lease not renewed for {self._settings.deadline_seconds:g} s: {error}"
                raise LeaseLost(text) from error
            log.warning("lease not renewed", extra={"error": str(error), "left_seconds": round(left, 1)})

    def left_seconds(self) -> float:
        """Seconds until the lease counts as lost."""
        return self._renewed + self._settings.deadline_seconds - self._clock.monotonic()

    async def take_token(self, floor: int) -> int:
        """A fencing token above every earlier one and `floor`, stored in the lease before it is given.

        Earlier ones and floors that cannot be true are ignored (fencing.py).
        Raises `LeaseLost`, or `Unavailable` when it could not be stored.
        """
        previous = token_of(self._mine_now())
        token = next_token(previous, floor, self._clock.unix_milliseconds())
        await self._write(self._mine_now(), token=token)
        return token

    async def confirms(self, token: int) -> bool:
        """Whether the lease, read anew, is ours and carries this token. Raises `Unavailable`."""
        found = await self._store.get(self._one)
        if self._mine is None or found is None:
            return False
        holder = (found.get("spec") or {}).get("holderIdentity")
        return bool(holder == self._settings.identity) and token_of(found) == token

    def standby_waits(self) -> bool:
        """Whether another replica has shown, while we held the lease, that it waits for it."""
        seen, now = self._standby, self._clock.monotonic()
        kept = STANDBY_KEPT * self._settings.standby_seconds
        return self._standby_changed and seen is not None and now - seen.since <= kept

    async def release(self) -> None:
        """Give the lease up, so that a standby need not wait; never fails."""
        for _ in range(RELEASE_ATTEMPTS):
            held = self._mine
            if held is None:
                return
            try:
                await self._store.replace(self._one, released(held, self._stamp()))
                self._mine = None
            except Conflict:
                try:
                    await self._look_again()
                except Unavailable as error:
                    log.warning("lease not released", extra={"error": str(error)})
                    return
            except Unavailable as error:
                log.warning("lease not released, it will expire", extra={"error": str(error)})
                return

    @property
    def _one(self) -> str:
        return f"{self._path}/{self._settings.name}"

    def _mine_now(self) -> dict[str, Any]:
        if self._mine is None:
            raise LeaseLost("the lease is not held")
        return self._mine

    async def _try(self) -> bool:
        """Take the lease if it is free or its holder is gone."""
        asked = self._clock.monotonic()
        found = await self._store.get(self._one)
        try:
            if found is None:
                body = taken(None, self._settings, self._stamp())
                self._taken(await self._store.create(self._path, body), asked)
                return True
            if self._is_free(found):
                body = taken(found, self._settings, self._stamp())
                self._taken(await self._store.replace(self._one, body), asked)
                return True
            await self._sign(found)
        except Conflict:
            log.debug("another replica wrote the lease first")
        return False

    def _taken(self, lease: dict[str, Any], asked: float) -> None:
        self._mine, self._renewed = lease, asked
        self._standby, self._standby_changed = None, False
        self._notice_standby(lease)

    def _is_free(self, lease: Mapping[str, Any]) -> bool:
        """Whether nobody holds it, or its record has stayed the same for its duration, seen from here."""
        spec = lease.get("spec") or {}
        now = self._clock.monotonic()
        record = tuple(spec.get(key) for key in ("holderIdentity", "renewTime", "acquireTime"))
        if self._record is None or self._record.value != record:
            self._record = _Sighting(record, now)
        return not spec.get("holderIdentity") or now >= self._record.since + self._lasts(spec)

    def _lasts(self, spec: Mapping[str, Any]) -> float:
        stated = spec.get("leaseDurationSeconds")
        return float(stated) if isinstance(stated, int) and stated > 0 else self._settings.duration_seconds

    def _until_next_look(self) -> float:
        """At the moment at which the holder's time is up, if that is earlier than usual."""
        usual = self._settings.retry_seconds
        if self._record is None:
            return usual
        left = self._record.since + self._settings.duration_seconds - self._clock.monotonic()
        return min(usual, left) if left > 0 else usual

    async def _sign(self, lease: Mapping[str, Any]) -> None:
        """Show, now and then, that we wait."""
        now = self._clock.monotonic()
        if self._signed is not None and now < self._signed + self._settings.standby_seconds:
            return
        sign = f"{self._settings.identity} {self._clock.unix_milliseconds() / 1000:.0f}"
        await self._store.replace(self._one, annotated(lease, {ANNOTATION_STANDBY: sign}))
        self._signed = now

    async def _write(self, held: Mapping[str, Any], *, token: int | None = None) -> None:
        """Renew (and store a token); what another replica wrote meanwhile is read and written again."""
        asked = self._clock.monotonic()
        try:
            lease = await self._store.replace(self._one, renewal(held, self._stamp(), token))
        except Conflict:
            again = await self._look_again()
            asked = self._clock.monotonic()
            try:
                lease = await self._store.replace(self._one, renewal(again, self._stamp(), token))
            except Conflict as error:
                raise Unavailable(f"lease {self._settings.name} was written twice by others") from error
        self._mine, self._renewed = lease, asked
        self._notice_standby(lease)

    async def _look_again(self) -> dict[str, Any]:
        """The lease as stored; raise `LeaseLost` when it is another's."""
        found = await self._store.get(self._one)
        holder = ((found or {}).get("spec") or {}).get("holderIdentity")
        if found is None or holder != self._settings.identity:
            self._mine = None
            raise LeaseLost(f"lease {self._settings.name} is held by {holder or 'nobody'}")
        self._mine = found
        return found

    def _notice_standby(self, lease: Mapping[str, Any]) -> None:
        sign = annotations(lease).get(ANNOTATION_STANDBY, "")
        if self._standby is None:
            self._standby = _Sighting(sign, self._clock.monotonic())
        elif sign != self._standby.value:
            self._standby = _Sighting(sign, self._clock.monotonic())
            self._standby_changed = not sign.startswith(f"{self._settings.identity} ")

    def _stamp(self) -> str:
        return stamp(self._clock.unix_milliseconds())
