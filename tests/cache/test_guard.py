"""When a policy falls back to LRU, and when it returns."""

import pytest

from kvtune_cache.guard import Cause, Change, GuardRules, PolicyGuard, reused_within
from kvtune_cache.reuse import ReuseAges

ASK_ONLY = GuardRules()
BY_ITSELF = GuardRules(quiet_seconds=600.0)


def fed(guard: PolicyGuard, start_s: int, end_s: int, reused: int, references: int = 100) -> list[Change]:
    """Feed a guard with the same counts every 5 s, its bounds included; what it changed."""
    times = range(start_s, end_s + 1, 5)
    return [change for now in times if (change := guard.observe(float(now), references, reused))]


def test_a_low_reuse_rate_for_the_whole_window_falls_back() -> None:
    guard = PolicyGuard(ASK_ONLY, 0.0)
    assert fed(guard, 5, 295, 39) == []
    (change,) = fed(guard, 300, 300, 39)
    assert change == Change(
        fallen_back=True, at_s=300.0, cause=Cause.LOW_REUSE, message="reuse rate 0.390 under 0.4 for 300 s"
    )
    assert guard.fallen_back and guard.falls == 1 and guard.last_change == change


def test_a_rate_at_the_limit_stays() -> None:
    assert fed(PolicyGuard(ASK_ONLY, 0.0), 5, 3_600, 40) == []


def test_a_low_spell_that_is_shorter_than_the_window_stays() -> None:
    guard = PolicyGuard(ASK_ONLY, 0.0)
    assert fed(guard, 5, 600, 60) + fed(guard, 605, 750, 25) + fed(guard, 755, 1_200, 60) == []


def test_missing_traffic_is_not_a_low_rate() -> None:
    guard = PolicyGuard(ASK_ONLY, 0.0)
    assert fed(guard, 5, 3_600, 0, references=0) == []
    assert guard.reuse_rate(3_600.0) is None
    assert fed(guard, 3_605, 3_660, 0) == [], "a minute of traffic says nothing of five"
    assert fed(guard, 3_665, 3_900, 0), "five minutes do"


def test_too_little_traffic_is_not_a_rate() -> None:
    assert fed(PolicyGuard(ASK_ONLY, 0.0), 5, 3_600, 0, references=1) == []


def test_without_a_rate_only_failures_count() -> None:
    guard = PolicyGuard(GuardRules(least_reuse_rate=None), 0.0)
    assert fed(guard, 5, 3_600, 0) == []
    assert guard.failed(3_601.0, "IndexError: list index out of range") is not None


def test_a_policy_that_raises_falls_back_at_once_and_once() -> None:
    guard = PolicyGuard(ASK_ONLY, 0.0)
    change = guard.failed(1.0, "ZeroDivisionError: float division by zero")
    assert change is not None and change.fallen_back and change.cause is Cause.POLICY_FAILED
    assert "ZeroDivisionError" in change.message
    assert guard.failed(2.0, "again") is None
    assert guard.falls == 1


def test_without_a_quiet_time_it_returns_on_command_only() -> None:
    guard = PolicyGuard(ASK_ONLY, 0.0)
    assert guard.restore(0.0) is None, "there is nothing to return to"
    guard.failed(1.0, "bug")
    assert fed(guard, 5, 86_400, 90) == []
    change = guard.restore(86_401.0)
    assert change is not None and not change.fallen_back and change.cause is Cause.COMMAND
    assert not guard.fallen_back


def test_a_low_rate_counts_anew_after_a_return() -> None:
    guard = PolicyGuard(ASK_ONLY, 0.0)
    assert len(fed(guard, 5, 300, 10)) == 1
    guard.restore(302.0)
    assert fed(guard, 305, 600, 10) == []
    assert len(fed(guard, 605, 605, 10)) == 1
    assert guard.falls == 2


def test_after_a_failure_it_returns_when_nothing_failed_for_the_quiet_time() -> None:
    guard = PolicyGuard(BY_ITSELF, 0.0)
    guard.failed(100.0, "bug")
    guard.failed(200.0, "bug of the shadow")
    assert fed(guard, 205, 795, 90) == []
    (change,) = fed(guard, 800, 800, 90)
    assert change.cause is Cause.QUIET and not change.fallen_back


def test_after_a_low_rate_it_returns_when_the_rate_was_high_for_the_quiet_time() -> None:
    guard = PolicyGuard(BY_ITSELF, 0.0)
    assert len(fed(guard, 5, 300, 10)) == 1
    assert fed(guard, 305, 3_600, 10) == [], "it is still low"
    assert fed(guard, 3_605, 7_200, 0, references=0) == [], "no traffic is no high rate"
    (change,) = fed(guard, 7_205, 8_200, 90)
    assert change.cause is Cause.QUIET and change.at_s >= 7_205 + 600


@pytest.mark.parametrize(
    ("field", "rules"),
    {
        "least_reuse_rate": {"least_reuse_rate": float("nan")},
        "window_seconds": {"window_seconds": float("nan")},
        "fewest_references": {"fewest_references": 0},
        "quiet_seconds": {"quiet_seconds": 0.0},
    }.items(),
)
def test_limits_that_cannot_be_are_refused_by_name(field: str, rules: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"^{field}: "):
        GuardRules(**rules)  # type: ignore[arg-type]  # the test gives each field what it cannot be


def test_counts_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="reused: 2 is not from 0 to references, 1"):
        PolicyGuard(ASK_ONLY, 0.0).observe(1.0, 1, 2)


def test_reuses_within_a_time_are_those_of_the_ages_below_it() -> None:
    ages = ReuseAges()
    ages.touch([1, 2, 3], 0.0)
    ages.touch([1], 100.0)
    ages.touch([2], 301.0)
    ages.touch([3], 400.0)
    assert reused_within(ages.snapshot(), 300.0) == 2, "the bin that 300 s lies in ends at 304.4 s"
    with pytest.raises(ValueError, match="is above the top edge"):
        reused_within(ages.snapshot(), 1e9)


def test_other_rules_judge_anew_and_let_a_policy_return() -> None:
    guard = PolicyGuard(ASK_ONLY, 0.0)
    assert fed(guard, 5, 300, 30)[-1].fallen_back
    guard.judge_by(GuardRules(least_reuse_rate=0.2, quiet_seconds=600.0), 300.0)
    assert guard.fallen_back, "the rules let it return later"
    (change,) = fed(guard, 305, 1_500, 30)
    assert (change.cause, change.fallen_back) == (Cause.QUIET, False)
    assert fed(guard, 1_505, 3_000, 30) == [], "0.3 is not under 0.2"
    guard.judge_by(ASK_ONLY, 3_000.0)
    assert fed(guard, 3_005, 3_295, 30) == [], "what came before the rules does not count"
    assert fed(guard, 3_300, 3_300, 30)[0].cause is Cause.LOW_REUSE


def test_the_same_rules_again_change_nothing() -> None:
    guard = PolicyGuard(ASK_ONLY, 0.0)
    fed(guard, 5, 295, 39)
    guard.judge_by(GuardRules(), 297.0)
    assert fed(guard, 300, 300, 39)
