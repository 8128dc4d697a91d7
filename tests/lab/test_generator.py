"""The generator of chat and tool-using sessions."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise, takewhile
from math import inf, pi, sin

import pytest

from kvtune_lab.generator import DRIFT, generate
from kvtune_lab.traffic import Request
from kvtune_lab.workload import CHAT, CHAT_WORKLOAD, TOOL_USING


def until(seconds: float, *, rate: float = 10.0, seed: int = 3) -> list[Request]:
    return list(takewhile(lambda r: r.arrival_s < seconds, generate(requests_per_second=rate, seed=seed)))


def by_session(requests: list[Request]) -> dict[int, list[Request]]:
    sessions: dict[int, list[Request]] = defaultdict(list)
    for request in requests:
        sessions[request.session].append(request)
    return sessions


def test_the_same_seed_gives_the_same_requests_and_another_seed_others() -> None:
    def first(seed: int) -> list[Request]:
        return list(islice(generate(requests_per_second=5.0, seed=seed), 500))

    assert first(1) == first(1)
    assert first(1) != first(2)


def test_hints_are_right_and_change_no_request() -> None:
    source = generate(requests_per_second=10.0, seed=3, hinted_share=0.5)
    hinted = list(takewhile(lambda request: request.arrival_s < 600.0, source))
    assert [request[:-1] for request in hinted] == [request[:-1] for request in until(600.0)]
    assert 0.4 < sum(request.hint is not None for request in hinted) / len(hinted) < 0.6
    for session in by_session(hinted).values():
        for request, following in pairwise([*session, None]):
            hint = request.hint if request is not None else None
            if request is None or hint is None:
                continue
            if following is None:
                back_s = request.arrival_s + (hint.expected_return_seconds or inf)
                assert hint.session_ended or back_s >= 600.0
            else:
                assert hint.expected_return_seconds == pytest.approx(following.arrival_s - request.arrival_s)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_of_hints_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="hinted_share"):
        generate(requests_per_second=1.0, seed=1, hinted_share=share)


def test_arrivals_never_go_back_and_prompts_fit_their_blocks() -> None:
    requests = until(600.0)
    assert all(a.arrival_s <= b.arrival_s for a, b in pairwise(requests))
    assert requests[0].arrival_s >= 0
    for request in requests:
        assert len(request.blocks) == request.prompt_tokens // 128
        assert request.root == request.blocks[CHAT.system_blocks]
        assert request.output_tokens >= 1


def test_a_turn_extends_the_prompt_of_the_turn_before() -> None:
    for turns in by_session(until(1200.0)).values():
        for earlier, later in pairwise(turns):
            assert later.prompt_tokens > earlier.prompt_tokens
            assert later.blocks[: len(earlier.blocks)] == earlier.blocks
            assert later.root == earlier.root
        assert len(turns) <= CHAT.most_turns


def test_ids_are_prefix_chained_and_sessions_share_the_system_prompt_alone() -> None:
    requests = until(300.0)
    before: dict[int, int] = {}
    owner: dict[int, int] = {}
    for request in requests:
        for parent, block in pairwise(request.blocks):
            if block >= 1 << 16:
                assert owner.setdefault(block, request.session) == request.session
            assert before.setdefault(block, parent) == parent or block == request.root
    shared = {tuple(request.blocks[: CHAT.system_blocks]) for request in requests}
    assert len(shared) == len(CHAT_WORKLOAD)


def test_traffic_is_stationary_from_its_first_seconds() -> None:
    requests = until(3600.0, rate=20.0, seed=5)
    spans = [[r for r in requests if low <= r.arrival_s < low + 300] for low in (0, 1650, 3300)]
    for span in spans:
        assert len(span) / 300 == pytest.approx(20.0, rel=0.2)
        assert sum(len(r.blocks) for r in span) / len(span) == pytest.approx(24.0, rel=0.12)


def test_load_drifts_by_at_most_a_quarter() -> None:
    phases = [2 * pi * i / 40 for i in range(40)]
    waves = [
        1 + DRIFT[0][0] * sin(2 * pi * t / DRIFT[0][1] + a) + DRIFT[1][0] * sin(2 * pi * t / DRIFT[1][1] + b)
        for t in range(0, 3600, 300)
        for a in phases
        for b in phases
    ]
    assert max(waves) / min(waves) <= 1.25


def test_turns_follow_the_table_of_classes() -> None:
    fresh = replace(CHAT, request_share=1.0, history_seconds=0.0)
    source = generate(requests_per_second=20.0, seed=11, kinds=(fresh,))
    turns = by_session(list(takewhile(lambda r: r.arrival_s < 5400.0, source))).values()
    started = [t for t in turns if t[0].arrival_s < 1800.0]
    second = [t for t in started if len(t) > 1]
    third = [t for t in second if len(t) > 2]
    assert len(second) / len(started) == pytest.approx(0.30, abs=0.02)
    assert len(third) / len(second) == pytest.approx(0.38, abs=0.03)
    waits = [t[1].arrival_s - t[0].arrival_s for t in second]
    assert sum(waits) / len(waits) == pytest.approx(294.0, rel=0.06)


def test_expected_turns_are_those_of_the_go_on_probabilities() -> None:
    assert CHAT.mean_turns == pytest.approx(1.53, abs=0.05)
    assert TOOL_USING.go_on_probability(0) == pytest.approx(0.92 * 0.98 + 0.08 * 0.72)
    assert TOOL_USING.go_on_probability(TOOL_USING.most_turns - 1) == 0.0


def test_memory_holds_live_sessions_and_nothing_is_made_ahead() -> None:
    source: Iterator[Request] = generate(requests_per_second=1.0, seed=1)
    assert next(source).arrival_s < 60.0


@pytest.mark.parametrize("rate", [0.0, -1.0, inf, float("nan")])
def test_a_rate_that_is_no_rate_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=r"requests_per_second: .* is not a finite number above 0"):
        generate(requests_per_second=rate, seed=1)


def test_shares_that_do_not_sum_to_one_are_refused() -> None:
    with pytest.raises(ValueError, match=r"request shares sum to 0\.24, not 1"):
        generate(requests_per_second=1.0, seed=1, kinds=(CHAT,))
