"""When nothing may be tried: freeze windows of the operator's settings. Pure.

A weekly window begins and ends by the clock on the wall of its time zone: 22:00 for 8h ends at 06:00 on the
night of a clock change, too. Where a wall time comes twice or not at all, the longer freeze counts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kvtune_api.errors import Problem
from kvtune_api.operator_config import Day, FreezeWindow

LONGEST = timedelta(days=31)
"""Of a weekly window."""

CHAINED = 64
"""Windows that follow one another without a gap are told as one, up to so many."""

FIRST_YEAR, LAST_YEAR = 1970, 9000
"""Of the two moments of a window: all that is reckoned with them stays within what a calendar here holds."""

_WEEKDAYS = tuple(Day)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """A freeze that holds now."""

    name: str
    """Of the window that ends last."""

    until: datetime
    """Its end in UTC, with all windows that follow without a gap."""

    def __str__(self) -> str:
        named = f" {self.name!r}" if self.name else ""
        return f"freeze window{named} until {self.until:%Y-%m-%d %H:%M} UTC"


def frozen(windows: Sequence[FreezeWindow], now: datetime) -> Frozen | None:
    """The freeze at a moment; None without one. Windows with a problem hold nothing."""
    sound = [window for window in windows if not any(_problems(window, ""))]
    found: Frozen | None = None
    moment = now
    for _ in range(CHAINED):
        ends = [(end, window.name) for window in sound for end in _ends(window, moment)]
        if not ends:
            break
        moment, name = max(ends)
        found = Frozen(name=name, until=moment.astimezone(UTC))
    return found


def freeze_problems(windows: Sequence[FreezeWindow]) -> tuple[Problem, ...]:
    """What is wrong with the windows beyond their types: zones, moments, order."""
    return tuple(
        problem
        for index, window in enumerate(windows)
        for problem in _problems(window, f"freezeWindows[{index}]")
    )


def _problems(window: FreezeWindow, path: str) -> Iterator[Problem]:
    if _zone(window.time_zone) is None:
        yield Problem(f"{path}.timeZone", f"{window.time_zone!r} is no time zone such as Europe/Berlin")
    if window.duration is not None and window.duration.seconds > LONGEST.total_seconds():
        yield Problem(f"{path}.duration", f"{window.duration} is longer than {LONGEST.days} days")
    moments = {"since": window.since, "until": window.until}
    read = {key: _moment(text) for key, text in moments.items() if text is not None}
    for key, moment in read.items():
        if moment is None:
            example = "2026-12-24T18:00:00+01:00"
            yield Problem(f"{path}.{key}", f"{moments[key]!r} is no moment with an offset such as {example}")
        elif not FIRST_YEAR <= moment.year <= LAST_YEAR:
            years = f"the years {FIRST_YEAR} to {LAST_YEAR}"
            yield Problem(f"{path}.{key}", f"{moments[key]!r} is not within {years}")
    since, until = read.get("since"), read.get("until")
    if since is not None and until is not None and since >= until:
        yield Problem(f"{path}.until", f"{window.until} is not after since {window.since}")


def _ends(window: FreezeWindow, now: datetime) -> Iterator[datetime]:
    """Ends, in UTC, of every occurrence of a window that holds at a moment."""
    if window.since is not None and window.until is not None:
        since, until = _moment(window.since), _moment(window.until)
        if since is not None and until is not None and since <= now < until:
            yield until.astimezone(UTC)
        return
    zone = _zone(window.time_zone)
    if zone is None:
        return
    lasts = timedelta(seconds=window.duration.seconds) if window.duration else timedelta(days=1)
    today = now.astimezone(zone).date()
    for back in range(-1, lasts.days + 3):
        begins = _begins(window, today, back)
        if begins is None:
            continue
        start, end = min(_in_utc(begins, zone)), max(_in_utc(begins + lasts, zone))
        if start <= now < end:
            yield end


def _begins(window: FreezeWindow, today: date, back: int) -> datetime | None:
    """The wall time at which the window begins on the day `back` days ago, if it does."""
    try:
        day = today - timedelta(days=back)
    except OverflowError:
        return None
    if _WEEKDAYS[day.weekday()] not in window.days:
        return None
    return datetime.combine(day, time.fromisoformat(window.start))


def _in_utc(wall: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Both readings of a wall time; they differ only around a clock change."""
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return first, second


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
