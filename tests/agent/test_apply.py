"""The fencing rule, case by case and as laws."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_agent.apply import (
    AlreadyThere,
    Applied,
    Fence,
    Held,
    Refused,
    Stale,
    decide,
    lapsed,
    running,
    whole,
)
from kvtune_api.knobs import CacheConfig, Knob, point
from kvtune_api.wire import KnobSupport, Push, Role
from tests.agent.samples import BETTER, START, cache_config, push, push_body

LIVE = tuple(KnobSupport(knob=knob, live=True) for knob in Knob)
NOW = 100.0


def held_after(*pushes: Push) -> Held:
    held = Held(incumbent=START)
    for one in pushes:
        decision = decide(held, one, now=NOW, supports=LIVE)
        assert not isinstance(decision, Refused), decision
        held = decision.held
    return held


ACCEPTED: dict[str, tuple[Held, Push]] = {
    "the first push of all": (held_after(), push(token=0, generation=0)),
    "a greater token, whatever the rest": (
        held_after(push(token=5, generation=9)),
        push(token=6, generation=0, policyUID="p2"),
    ),
    "a greater generation of the same policy": (held_after(push(generation=1)), push(generation=2)),
    "another policy, from a lower generation, when no lease is live": (
        held_after(push(role="incumbent", generation=9)),
        push(generation=1, policyUID="p2"),
    ),
}


@pytest.mark.parametrize(("held", "one"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted(held: Held, one: Push) -> None:
    decision = decide(held, one, now=NOW, supports=LIVE)

    assert isinstance(decision, Applied)
    assert decision.held.fence.token == one.token
    assert decision.held.fence.generation == one.generation
    assert decision.held.config == whole(one.config, START)


REFUSED: dict[str, tuple[Held, Push, Stale, str]] = {
    "a lower token, even with a greater generation": (
        held_after(push(token=5)),
        push(token=4, generation=99),
        Stale.TOKEN,
        "token: 4 is less than 5",
    ),
    "a lower generation": (
        held_after(push(generation=3)),
        push(generation=2),
        Stale.GENERATION,
        "generation: 2 is less than 3",
    ),
    "the same generation with other values": (
        held_after(push()),
        push(config={"cacheTTL": "121s"}),
        Stale.REUSED,
        "generation: 1 was already sent",
    ),
    "the same generation with another role": (
        held_after(push()),
        push(role="incumbent"),
        Stale.REUSED,
        "another role",
    ),
    "another policy while a candidate is under a lease": (
        held_after(push()),
        push(policyUID="p2", generation=9),
        Stale.LEASED,
        "policy p1 is under a lease",
    ),
}


@pytest.mark.parametrize(("held", "one", "reason", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_as_stale(held: Held, one: Push, reason: Stale, words: str) -> None:
    decision = decide(held, one, now=NOW, supports=LIVE)

    assert isinstance(decision, Refused)
    assert (decision.status, decision.reason) == (409, reason)
    assert words in decision.message


def test_another_policy_is_accepted_once_the_lease_has_run_out() -> None:
    held = held_after(push(leaseSeconds=30))

    assert isinstance(decide(held, push(policyUID="p2"), now=NOW + 29.9, supports=LIVE), Refused)
    assert isinstance(decide(held, push(policyUID="p2"), now=NOW + 30, supports=LIVE), Applied)


def test_a_repeated_push_renews_the_lease_and_changes_nothing_else() -> None:
    held = held_after(push(leaseSeconds=30))

    decision = decide(held, push(leaseSeconds=20), now=NOW + 25, supports=LIVE)

    assert decision == AlreadyThere(held=replace(held, lease_ends=NOW + 45))


def test_values_count_and_not_how_they_are_written() -> None:
    held = held_after(push())
    body = push_body()["config"] | {"cacheTTL": "2m"}

    assert isinstance(decide(held, push(config=body), now=NOW, supports=LIVE), AlreadyThere)


def test_a_candidate_leaves_the_incumbent_and_an_incumbent_replaces_it() -> None:
    held = held_after(push())
    assert (held.incumbent, held.config) == (START, BETTER)

    held = held_after(push(), push(role="incumbent", generation=2))
    assert (held.incumbent, held.candidate, held.lease_ends) == (BETTER, None, None)


def test_a_lapse_returns_to_the_incumbent_and_is_counted_once() -> None:
    held = held_after(push(leaseSeconds=30))

    assert lapsed(held, NOW + 29.9) is held
    after = lapsed(held, NOW + 30)
    assert (after.config, after.lease_lapses, after.fence) == (START, 1, held.fence)
    assert lapsed(after, NOW + 99) is after


def test_a_repeat_after_the_lapse_puts_the_candidate_in_force_again() -> None:
    after = lapsed(held_after(push()), NOW + 30)

    decision = decide(after, push(), now=NOW + 31, supports=LIVE)

    assert isinstance(decision, AlreadyThere)
    assert (decision.held.config, decision.held.lease_ends, decision.held.lease_lapses) == (BETTER, 161, 1)


def test_a_knob_that_the_engine_lacks_is_named() -> None:
    some = tuple(support for support in LIVE if support.knob is not Knob.EVICTION_RATIO)

    decision = decide(Held(incumbent=START), push(), now=NOW, supports=some)

    assert isinstance(decision, Refused)
    assert (decision.status, decision.reason) == (422, "KnobUnsupported")
    assert "config.evictionRatio" in decision.message
    assert "cacheTTL" not in decision.message


def test_a_knob_that_needs_a_restart_may_be_repeated_but_not_changed() -> None:
    fixed = tuple(KnobSupport(knob=knob, live=knob is not Knob.CACHE_TTL) for knob in Knob)
    same = push(config={"cacheTTL": "30s", "evictionRatio": 0.1})

    assert isinstance(decide(Held(incumbent=START), same, now=NOW, supports=fixed), Applied)
    decision = decide(Held(incumbent=START), push(), now=NOW, supports=fixed)
    assert isinstance(decision, Refused)
    assert "config.cacheTTL: changes only when the engine restarts" in decision.message


def test_what_runs_is_told_with_the_lease_that_is_left() -> None:
    told = running(held_after(push(leaseSeconds=30)), NOW + 12)

    assert (told.role, told.config, told.incumbent) == (Role.CANDIDATE, BETTER, START)
    assert (told.generation, told.token, told.policy_uid) == (1, 1, "p1")
    assert told.lease_remaining_seconds == 18


small = st.integers(min_value=0, max_value=3)
configs = st.sampled_from((START, BETTER, cache_config(host="114Gi"), CacheConfig()))


@st.composite
def pushes(draw: st.DrawFn) -> Push:
    role = draw(st.sampled_from(list(Role)))
    return Push(
        role=role,
        generation=draw(small),
        token=draw(small),
        policy_uid=draw(st.sampled_from(("p1", "p2"))),
        config=draw(configs),
        lease_seconds=draw(st.sampled_from((1.0, 5.0))) if role is Role.CANDIDATE else None,
    )


steps = st.lists(st.tuples(pushes(), st.floats(min_value=0, max_value=4)), max_size=30)


def _order(fence: Fence) -> tuple[int, int]:
    return fence.token, fence.generation


@given(steps)
def test_law_the_fence_never_goes_back(history: list[tuple[Push, float]]) -> None:
    held, now = Held(incumbent=START), NOW
    for one, wait in history:
        now += wait
        before = held = lapsed(held, now)
        decision = decide(held, one, now=now, supports=LIVE)
        if not isinstance(decision, Refused):
            held = decision.held
        assert held.fence.token >= before.fence.token
        if held.fence.policy_uid == before.fence.policy_uid:
            assert _order(held.fence) >= _order(before.fence)
        assert held.lease_lapses >= before.lease_lapses


@given(steps, pushes())
def test_law_a_push_that_was_taken_is_there_already_when_it_is_repeated(
    history: list[tuple[Push, float]], last: Push
) -> None:
    held, now = Held(incumbent=START), NOW
    for one, wait in history:
        now += wait
        decision = decide(lapsed(held, now), one, now=now, supports=LIVE)
        held = held if isinstance(decision, Refused) else decision.held
    first = decide(held, last, now=now, supports=LIVE)
    if not isinstance(first, Refused):
        assert decide(first.held, last, now=now, supports=LIVE) == AlreadyThere(held=first.held)


@given(steps)
def test_law_only_an_incumbent_push_changes_the_incumbent(history: list[tuple[Push, float]]) -> None:
    held, now = Held(incumbent=START), NOW
    for one, wait in history:
        now += wait
        decision = decide(lapsed(held, now), one, now=now, supports=LIVE)
        if isinstance(decision, Refused):
            continue
        if one.role is Role.CANDIDATE:
            assert decision.held.incumbent == held.incumbent
        else:
            assert decision.held.config == decision.held.incumbent
            assert point(one.config).items() <= point(decision.held.config).items()
        held = decision.held


@pytest.mark.parametrize("role", Role)
def test_a_knob_that_a_push_leaves_out_keeps_the_incumbents_value_and_is_reported(role: Role) -> None:
    held = held_after(push(role=role, config={"cacheTTL": "90s"}))

    assert running(held, NOW).config == cache_config(ttl="90s")
    assert running(held, NOW).incumbent == (cache_config(ttl="90s") if role is Role.INCUMBENT else START)


@given(steps)
def test_law_a_candidate_never_outlives_its_last_lease(history: list[tuple[Push, float]]) -> None:
    held, now = Held(incumbent=START), NOW
    for one, wait in history:
        now += wait
        decision = decide(lapsed(held, now), one, now=now, supports=LIVE)
        held = held if isinstance(decision, Refused) else decision.held

    assert lapsed(held, now + 5.0).candidate is None
