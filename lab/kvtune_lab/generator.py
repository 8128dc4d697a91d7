"""Generate the requests of multi-turn sessions, for ever, from a seed.

Called by the driver, the grid and the bench. Deterministic in (kinds, rate, seed). Stationary from the
first second: the starts of sessions are drawn far enough back that those still alive at time 0 go on from
where they are. The rate of session starts drifts as 1 + .07 sin + .03 sin over 2 h and 50 min with seeded
phases, so by at most 22 %. Memory holds the live sessions only.

Blocks are full blocks of the prompt, as engines cache them; the tokens after the last full block never hit.
A block id is unique to its session but for the system prompt of its kind, whose ids are the same everywhere
(those ids are below 2^16). A prompt always has at least one block of its own, and `root` is the first of
them.

With hints, clients tell of each session when it will return or that it is over, and they are right.
"""

import heapq
from collections.abc import Iterator, Sequence
from math import log, pi, sin
from random import Random
from typing import NamedTuple

from kvtune_api.hints import Hint
from kvtune_lab.traffic import Request
from kvtune_lab.workload import CHAT_WORKLOAD, Gap, SessionKind, Size

SESSION_BLOCKS_LOG2 = 16
"""Ids per session, as a power of two: a session has at most that many blocks."""

DRIFT = ((0.07, 7200.0), (0.03, 3000.0))
"""Amplitudes and periods in seconds of the drift of session starts."""

LEAST_RATE = 1e-6
"""Requests per second; with fewer, times soon get too large to be exact."""

MOST_RATE = 10_000
"""To begin takes 0.05 s of a processor for each request per second: the sessions that are alive then."""

_MOST_DRIFT = 1 + sum(amplitude for amplitude, _ in DRIFT)


class _Turn(NamedTuple):
    """A request to come; ordered by time, then session. Times are seconds from the workload's start."""

    at_s: float
    session: int
    kind: int
    turn: int
    own_tokens: int


class _Lognormal(NamedTuple):
    """A lognormal law given by its mean and sigma, in the form random.lognormvariate takes."""

    mu: float
    sigma: float

    @classmethod
    def of(cls, mean: float, sigma: float) -> "_Lognormal":
        return cls(log(mean) - sigma * sigma / 2, sigma)


class _Wait(NamedTuple):
    """A Gap, ready to draw."""

    probability: float
    law: _Lognormal


def _wait(gap: Gap) -> _Wait:
    return _Wait(gap.reuse_probability, _Lognormal.of(gap.mean_seconds, gap.sigma))


def _size(size: Size) -> _Lognormal:
    return _Lognormal.of(size.mean_tokens, size.sigma)


class _Kind:
    """A SessionKind with its laws ready to draw from one random stream."""

    def __init__(self, kind: SessionKind, requests_per_second: float, rng: Random) -> None:
        self.spec = kind
        self.starts_per_second = requests_per_second * kind.request_share / kind.mean_turns
        self._gaps = tuple(_wait(gap) for gap in kind.gaps)
        self._pause = _wait(kind.pause)
        self._first, self._growth, self._answer = _size(kind.first), _size(kind.growth), _size(kind.answer)
        self._rng = rng

    def wait_after(self, turn: int) -> float | None:
        """Draw the wait before the next turn, or None where the session ends."""
        rng, spec = self._rng, self.spec
        wait = self._gaps[min(turn, len(self._gaps) - 1)]
        if spec.pause_share and rng.random() < spec.pause_share:
            wait = self._pause
        if turn + 1 >= spec.most_turns or rng.random() >= wait.probability:
            return None
        return rng.lognormvariate(wait.law.mu, wait.law.sigma)

    def first_tokens(self) -> int:
        return int(self._rng.lognormvariate(self._first.mu, self._first.sigma))

    def growth_tokens(self) -> int:
        return 1 + int(self._rng.lognormvariate(self._growth.mu, self._growth.sigma))

    def answer_tokens(self) -> int:
        return 1 + int(self._rng.lognormvariate(self._answer.mu, self._answer.sigma))


class _Generator:
    """The heap of turns to come and the next start of each kind."""

    def __init__(
        self,
        kinds: Sequence[SessionKind],
        *,
        requests_per_second: float,
        seed: int,
        block_tokens: int,
        hinted_share: float,
    ) -> None:
        self._rng = Random(seed)
        self._hints = Random(f"hints of {seed}")
        self._hinted_share = hinted_share
        self._block_tokens = block_tokens
        self._phases = [self._rng.uniform(0, 2 * pi) for _ in DRIFT]
        self._kinds = [_Kind(kind, requests_per_second, self._rng) for kind in kinds]
        self._sessions = 0
        self._turns: list[_Turn] = []
        self._starts: list[tuple[float, int]] = []
        for number, kind in enumerate(self._kinds):
            self._look_back(number, kind)
        heapq.heapify(self._turns)
        heapq.heapify(self._starts)

    def requests(self) -> Iterator[Request]:
        """Yield requests in order of arrival, without an end."""
        turns, starts = self._turns, self._starts
        while True:
            while not turns or starts[0][0] <= turns[0].at_s:
                at_s, number = heapq.heappop(starts)
                heapq.heappush(turns, self._opening(number, at_s))
                heapq.heappush(starts, (self._next_start(number, at_s), number))
            turn = heapq.heappop(turns)
            request, following = self._request(turn), self._following(turn)
            if following is not None:
                heapq.heappush(turns, following)
            yield request if not self._hinted_share else self._hinted(request, following)

    def _look_back(self, number: int, kind: _Kind) -> None:
        """Draw the starts of one kind from its history on, and keep what is alive at time 0."""
        start = self._next_start(number, -kind.spec.history_seconds)
        while start < 0:
            turn: _Turn | None = self._opening(number, start)
            while turn is not None and turn.at_s < 0:
                turn = self._following(turn)
            if turn is not None:
                self._turns.append(turn)
            start = self._next_start(number, start)
        self._starts.append((start, number))

    def _next_start(self, number: int, after_s: float) -> float:
        """Draw the next start of a session by thinning a Poisson process of the highest rate."""
        rng = self._rng
        rate = self._kinds[number].starts_per_second * _MOST_DRIFT
        while True:
            after_s += rng.expovariate(rate)
            if rng.random() * _MOST_DRIFT <= self._drift(after_s):
                return after_s

    def _drift(self, at_s: float) -> float:
        waves = zip(DRIFT, self._phases, strict=True)
        return 1 + sum(
            amplitude * sin(2 * pi * at_s / period + phase) for (amplitude, period), phase in waves
        )

    def _opening(self, number: int, at_s: float) -> _Turn:
        self._sessions += 1
        own = self._block_tokens + self._kinds[number].first_tokens()
        return _Turn(at_s, self._sessions, number, 0, own)

    def _following(self, turn: _Turn) -> _Turn | None:
        kind = self._kinds[turn.kind]
        wait = kind.wait_after(turn.turn)
        if wait is None:
            return None
        own = turn.own_tokens + kind.growth_tokens()
        return _Turn(turn.at_s + wait, turn.session, turn.kind, turn.turn + 1, own)

    def _hinted(self, request: Request, following: _Turn | None) -> Request:
        """Let the client tell what will come, if it is one that does."""
        if self._hints.random() >= self._hinted_share:
            return request
        if following is None:
            return request._replace(hint=Hint(session_ended=True))
        wait_s = max(0.001, following.at_s - request.arrival_s)
        return request._replace(hint=Hint(expected_return_seconds=wait_s))

    def _request(self, turn: _Turn) -> Request:
        kind = self._kinds[turn.kind]
        shared = kind.spec.system_blocks
        shared_id = turn.kind << 8
        own_id = turn.session << SESSION_BLOCKS_LOG2
        own_blocks = turn.own_tokens // self._block_tokens
        return Request(
            turn.at_s,
            turn.session,
            own_id,
            [*range(shared_id, shared_id + shared), *range(own_id, own_id + own_blocks)],
            shared * self._block_tokens + turn.own_tokens,
            kind.answer_tokens(),
        )


def generate(
    *,
    requests_per_second: float,
    seed: int,
    kinds: Sequence[SessionKind] = CHAT_WORKLOAD,
    block_tokens: int = 128,
    hinted_share: float = 0.0,
) -> Iterator[Request]:
    """Yield requests without an end, in order of arrival, at a mean rate over all agents.

    A share of them comes with a hint; the requests are the same whatever that share. Raises ValueError for a
    rate outside LEAST_RATE to MOST_RATE, for kinds whose shares do not sum to 1, for a share of hints outside
    0 to 1.
    """
    if not 0 < requests_per_second < float("inf"):
        raise ValueError(f"requests_per_second: {requests_per_second} is not a finite number above 0")
    if not LEAST_RATE <= requests_per_second <= MOST_RATE:
        problem = f"is not from {LEAST_RATE:g} to {MOST_RATE:,}"
        raise ValueError(f"requests_per_second: {requests_per_second:g} {problem}")
    shares = sum(kind.request_share for kind in kinds)
    if abs(shares - 1) > 1e-9:
        raise ValueError(f"kinds: request shares sum to {shares}, not 1")
    if not 0 <= hinted_share <= 1:
        raise ValueError(f"hinted_share: {hinted_share} is not within 0 to 1")
    return _Generator(
        kinds,
        requests_per_second=requests_per_second,
        seed=seed,
        block_tokens=block_tokens,
        hinted_share=hinted_share,
    ).requests()
