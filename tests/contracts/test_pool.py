"""What tests of whole experiments rely on in the simulated pool: noise, determinism, faults."""

import math
import statistics
from itertools import pairwise
from typing import Any

import pytest

from kvtune_api.codec import canonical
from kvtune_api.knobs import Knob
from kvtune_api.wire import Counters, Report, Role
from kvtune_operator.ports import Accepted, Refused, Unreachable
from kvtune_tuner.sli import Missing, MissingReason
from tests.fakes.pool import Pool
from tests.fakes.responses import Surface, exponential_reuse, flat, per_octave, saturating, stepwise
from tests.fakes.samples import cache_config, incumbent_push, push
from tests.fakes.sim import PoolSettings

START = PoolSettings().start
LATE = START + 1e6


def pool(surface: Surface | None = None, **settings: Any) -> Pool:
    return Pool(PoolSettings(**settings), surface=surface, config=cache_config())


def counters(found: Counters | Missing) -> Counters:
    assert isinstance(found, Counters), found
    return found


def hit_rate(of: Pool, name: str, start: float, seconds: float) -> float:
    first, last = (counters(of.counters(name, at, LATE)) for at in (start, start + seconds))
    hits = (last.hit_tokens or 0) - (first.hit_tokens or 0)
    return hits / ((last.prompt_tokens or 0) - (first.prompt_tokens or 0))


def test_the_same_seed_gives_the_same_counters_in_whatever_order_they_are_asked() -> None:
    one, other = pool(seed=7), pool(seed=7)
    name = one.names()[0]
    forwards = [one.counters(name, START + 5 * step, LATE) for step in range(50)]
    backwards = [other.counters(name, START + 5 * step, LATE) for step in reversed(range(50))]

    assert forwards == backwards[::-1]
    assert pool(seed=8).counters(name, START, LATE) != forwards[0]


@pytest.mark.parametrize(("seconds", "sd"), [(120.0, 0.01), (480.0, 0.005)])
def test_the_noise_of_a_delta_is_what_the_settings_say(seconds: float, sd: float) -> None:
    simulated = pool(noise_sd=0.01)
    first, second, *_ = simulated.names()
    differences = [
        hit_rate(simulated, first, START + seconds * window, seconds)
        - hit_rate(simulated, second, START + seconds * window, seconds)
        for window in range(400)
    ]

    assert statistics.stdev(differences) / math.sqrt(2) == pytest.approx(sd, rel=0.15)


def test_counters_do_not_fall_over_a_minute_and_hits_stay_within_the_prompt() -> None:
    simulated = pool(noise_sd=0.02, share_sd=0.02)
    name = simulated.names()[0]
    samples = [counters(simulated.counters(name, START + 60 * step, LATE)) for step in range(500)]

    for before, after in pairwise(samples):
        assert (before.requests or 0) <= (after.requests or 0)
        assert (before.hit_tokens or 0) <= (after.hit_tokens or 0) <= (after.prompt_tokens or 0)


def test_a_better_candidate_is_better_by_its_gain() -> None:
    better = cache_config(ttl=120)
    simulated = pool(stepwise(better, gain=0.1), agent_sd=0.0)
    first, second, *_ = simulated.names()
    simulated.push(first, push(ttl=120), START)

    gain = hit_rate(simulated, first, START, 20_000) - hit_rate(simulated, second, START, 20_000)

    assert gain == pytest.approx(0.0, abs=0.01), "a lease of 30 s is soon over"
    simulated.push(first, incumbent_push(2, ttl=120), START + 20_000)
    later = START + 20_000
    gain = hit_rate(simulated, first, later, 20_000) - hit_rate(simulated, second, later, 20_000)
    assert gain == pytest.approx(0.1, abs=0.01)


def test_a_lease_ends_at_its_own_time_however_late_it_is_looked_at() -> None:
    simulated = pool(speed=2.0)
    name = simulated.names()[0]
    simulated.push(name, push(), START)

    report = simulated.report(name, START + 59.0)
    assert isinstance(report, Report)
    assert report.running.lease_remaining_seconds == pytest.approx(0.5)
    simulated.counters(name, START + 500, START + 501)
    assert simulated.agents[name].lapses == 1
    assert simulated.agents[name].role is Role.INCUMBENT
    assert simulated.agents[name].life.spans[-1].cell - simulated.agents[name].life.cell(START) == 12


def test_a_restart_loses_counters_and_candidate_but_not_the_incumbent_nor_the_fence() -> None:
    simulated = pool()
    name = simulated.names()[0]
    simulated.push(name, incumbent_push(3, ttl=60), START)
    simulated.push(name, push(4), START + 5)

    simulated.restart(name, START + 12)

    report = simulated.report(name, START + 100)
    assert isinstance(report, Report)
    assert report.running.config == cache_config(ttl=60)
    assert (report.running.generation, report.running.token) == (4, 5)
    assert report.started_at == START + 12
    newest = counters(simulated.newest(name, START + 100))
    assert newest.requests == pytest.approx((100 - 15) * 5)
    missed = simulated.counters(name, START + 10, START + 100)
    assert isinstance(missed, Missing)
    assert missed.reason is MissingReason.BOUND_MISSED


def test_without_traffic_nothing_is_counted() -> None:
    simulated = pool()
    name = simulated.names()[0]
    simulated.set_traffic(START, request_rate=0.0)

    first, last = (counters(simulated.counters(name, at, LATE)) for at in (START + 5, START + 500))

    assert first.requests == last.requests
    assert first.hit_tokens == last.hit_tokens
    report = simulated.report(name, START + 700)
    assert isinstance(report, Report)
    assert report.load.hit_rate is None


def test_errors_are_counted_from_when_they_begin() -> None:
    simulated = pool()
    name = simulated.names()[0]
    simulated.set_errors(START, per_second=2.0, name=name)

    assert counters(simulated.counters(name, START, LATE)).errors == 0
    assert counters(simulated.counters(name, START + 50, LATE)).errors == 100


def test_every_fault_has_its_answer() -> None:
    simulated = pool()
    down, slow, nan, token, knob, shrug = simulated.names()
    agents = simulated.agents
    agents[down].down = agents[slow].slow = agents[nan].nan = True
    agents[token].refuses_token = agents[shrug].shrug = True
    agents[knob].unsupported = frozenset({Knob.CACHE_TTL})

    answers = {name: simulated.push(name, push(), START) for name in simulated.names()}

    assert isinstance(answers[down], Unreachable)
    assert isinstance(answers[slow], Unreachable)
    assert agents[slow].role is Role.CANDIDATE, "it was done nevertheless"
    assert answers[nan] == answers[shrug] == Accepted()
    assert agents[shrug].config == cache_config()
    refused = [answer for answer in (answers[token], answers[knob]) if isinstance(answer, Refused)]
    assert [answer.status for answer in refused] == [401, 422]
    missing = simulated.newest(nan, START)
    assert isinstance(missing, Missing)
    assert missing.reason is MissingReason.NAN


def test_agents_join_and_leave() -> None:
    simulated = pool()
    simulated.join("http://127.0.0.1:9100", config=cache_config(), now=START)
    simulated.leave("http://127.0.0.1:9000")

    assert len(simulated.names()) == 6
    assert isinstance(simulated.report("http://127.0.0.1:9000", START), Unreachable)
    assert isinstance(simulated.report("http://127.0.0.1:9100", START + 60), Report)


def test_noise_that_does_not_fit_the_hit_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="needs more room"):
        pool(flat(hit_rate=0.05), noise_sd=0.05)


def test_surfaces_answer_for_configurations() -> None:
    steps = per_octave(cache_config(), {Knob.CACHE_TTL: 0.02})

    assert steps(cache_config(ttl=120)).hit_rate == pytest.approx(0.54)
    assert saturating(cache_config(host_gib=900, ttl=600)).hit_rate > saturating(cache_config()).hit_rate
    assert "counts" in canonical(exponential_reuse())
