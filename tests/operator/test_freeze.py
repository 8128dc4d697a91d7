"""Freeze windows: by the wall clock of a zone, without holes at clock changes."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_api.operator_config import Day, FreezeWindow
from kvtune_api.units import Duration
from kvtune_operator.freeze import freeze_problems, frozen

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe")
WEEKEND = FreezeWindow(name="weekend", days=(Day.SAT, Day.SUN), time_zone="Europe/Berlin")
NIGHT = FreezeWindow(
    name="night", days=tuple(Day), start="22:00", duration=Duration("8h"), time_zone="Europe/Berlin"
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def until(windows: tuple[FreezeWindow, ...], moment: str) -> str | None:
    found = frozen(windows, at(moment))
    return found.until.isoformat() if found else None


@pytest.mark.parametrize(
    ("moment", "end"),
    [
        ("2026-11-27T23:59:00+01:00", None),
        ("2026-11-28T00:00:00+01:00", "2026-11-29T23:00:00+00:00"),
        ("2026-11-29T23:59:59+01:00", "2026-11-29T23:00:00+00:00"),
        ("2026-11-30T00:00:00+01:00", None),
    ],
)
def test_a_weekend_is_one_freeze_with_one_end(moment: str, end: str | None) -> None:
    assert until((WEEKEND,), moment) == end


@pytest.mark.parametrize("sunday", ["2026-03-29", "2026-10-25"])
def test_a_night_ends_at_six_on_the_nights_of_clock_changes(sunday: str) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    inside = datetime.fromisoformat(f"{sunday}T04:00:00").replace(tzinfo=berlin)
    found = frozen((NIGHT,), inside)

    assert found is not None
    assert found.until.astimezone(berlin).isoformat()[:16] == f"{sunday}T06:00"


def test_the_day_of_25_hours_has_no_hole_at_its_end() -> None:
    assert until((WEEKEND,), "2026-10-25T22:30:00+00:00") == "2026-10-25T23:00:00+00:00"


def test_a_start_that_the_clocks_skip_counts_from_the_change() -> None:
    window = FreezeWindow(days=(Day.SUN,), start="02:30", duration=Duration("2h"), time_zone="Europe/Berlin")

    assert until((window,), "2026-03-29T00:45:00+00:00") is not None
    assert until((window,), "2026-03-29T02:29:00+00:00") is not None
    assert until((window,), "2026-03-29T02:31:00+00:00") is None


def test_a_window_between_two_moments_holds_from_the_first_to_before_the_second() -> None:
    window = FreezeWindow(name="launch", since="2026-12-24T18:00:00+01:00", until="2027-01-02T00:00:00Z")

    assert until((window,), "2026-12-24T16:59:59+00:00") is None
    assert until((window,), "2026-12-24T17:00:00+00:00") == "2027-01-02T00:00:00+00:00"
    assert until((window,), "2027-01-02T00:00:00+00:00") is None


def test_the_message_names_the_window_and_its_end() -> None:
    assert str(frozen((WEEKEND,), at("2026-11-28T12:00:00Z"))) == (
        "freeze window 'weekend' until 2026-11-29 23:00 UTC"
    )


def test_windows_without_a_gap_are_told_as_one() -> None:
    after = FreezeWindow(name="release", since="2026-11-29T20:00:00Z", until="2026-12-01T00:00:00Z")
    found = frozen((WEEKEND, after), at("2026-11-28T12:00:00Z"))

    assert found is not None
    assert (found.name, found.until.isoformat()) == ("release", "2026-12-01T00:00:00+00:00")


def test_a_freeze_of_every_day_ends_somewhere_in_the_text() -> None:
    assert frozen((FreezeWindow(days=tuple(Day)),), at("2026-11-28T12:00:00Z")) is not None


@pytest.mark.parametrize(
    ("window", "said"),
    [
        (FreezeWindow(days=(Day.MON,), time_zone="Mars/Base"), "freezeWindows[0].timeZone: 'Mars/Base'"),
        (FreezeWindow(days=(Day.MON,), time_zone="../etc/passwd"), "freezeWindows[0].timeZone"),
        (FreezeWindow(since="soon", until="2027-01-02T00:00:00Z"), "freezeWindows[0].since: 'soon' is no"),
        (FreezeWindow(since="2027-01-01T00:00:00", until="2027-01-02T00:00:00Z"), "since"),
        (FreezeWindow(since="2027-01-03T00:00:00Z", until="2027-01-02T00:00:00Z"), "is not after since"),
        (
            FreezeWindow(since="2026-01-01T00:00:00Z", until="9999-12-31T23:59:59-12:00"),
            "freezeWindows[0].until: '9999-12-31T23:59:59-12:00' is not within the years 1970 to 9000",
        ),
        (FreezeWindow(since="0001-01-01T00:00:00+12:00", until="2028-01-01T00:00:00Z"), "[0].since"),
        (FreezeWindow(days=(Day.MON,), duration=Duration("800h")), "is longer than 31 days"),
    ],
)
def test_a_window_that_can_never_hold_is_a_problem_with_its_field(window: FreezeWindow, said: str) -> None:
    assert said in "; ".join(str(problem) for problem in freeze_problems((window,)))
    assert frozen((window,), at("2027-01-02T12:00:00Z")) is None


MOMENTS = st.integers(1_700_000_000, 1_860_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
WINDOWS = st.builds(
    lambda days, hour, minute, hours, zone: FreezeWindow(
        days=tuple(days), start=f"{hour:02d}:{minute:02d}", duration=Duration(f"{hours}h"), time_zone=zone
    ),
    st.sets(st.sampled_from(Day), min_size=1, max_size=6),
    st.integers(0, 23),
    st.integers(0, 59),
    st.integers(1, 24),
    st.sampled_from(ZONES),
)


@given(WINDOWS, MOMENTS)
def test_what_the_wall_clock_says_is_frozen(window: FreezeWindow, now: datetime) -> None:
    wall = now.astimezone(ZoneInfo(window.time_zone)).replace(tzinfo=None)
    assert window.duration is not None
    expected = False
    for back in (0, 1, 2):
        day = (wall - timedelta(days=back)).date()
        begins = datetime.fromisoformat(f"{day}T{window.start}")
        listed = tuple(Day)[day.weekday()] in window.days
        expected |= listed and begins <= wall < begins + timedelta(seconds=window.duration.seconds)

    if expected:
        assert frozen((window,), now) is not None


@given(WINDOWS, MOMENTS)
def test_a_freeze_lasts_until_its_end_and_not_longer(window: FreezeWindow, now: datetime) -> None:
    found = frozen((window,), now)
    if found is None:
        return

    assert found.until > now
    last = frozen((window,), found.until - timedelta(microseconds=1))
    assert last is not None and last.until == found.until
    assert frozen((window,), found.until) is None
