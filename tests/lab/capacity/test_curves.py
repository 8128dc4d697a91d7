"""Curves of all policies: exact, and from samples with their error."""

import pytest

from kvtune_cache.requests import Requests
from kvtune_lab.capacity.curves import PolicyCurve, Sampling, policy_curves, sampling_for
from kvtune_lab.setups import Policy, Setup
from kvtune_lab.simulate import Simulator
from tests.lab.capacity.traces import sessions, skewed, trace

POLICIES = [Policy.LRU, Policy.FIFO, Policy.ARC, Policy.OPT]
SIZES = [100, 300, 900]


@pytest.fixture(scope="module")
def requests() -> Requests:
    """Two thousand requests of sessions, some asked for more often."""
    return skewed(2_000)


@pytest.fixture(scope="module")
def exact(requests: Requests) -> dict[Policy, PolicyCurve]:
    """Everything simulated."""
    found = policy_curves(requests, POLICIES, SIZES, sampling=Sampling(rate=1.0))
    return {curve.policy: curve for curve in found.policies}


def test_without_samples_every_policy_has_the_rates_of_its_simulation(
    requests: Requests, exact: dict[Policy, PolicyCurve]
) -> None:
    simulator = Simulator(requests)
    for policy in POLICIES:
        rates = [
            simulator.simulate(Setup(policy=policy, capacity_blocks=size)).token_hit_rate_last_half
            for size in SIZES
        ]
        assert exact[policy].rates == pytest.approx(rates)
        assert exact[policy].errors == (0.0,) * 3


def test_samples_come_near_and_say_by_how_much(requests: Requests, exact: dict[Policy, PolicyCurve]) -> None:
    sampling = Sampling(rate=0.4, salts=(1, 2, 3, 4, 5, 6))
    found = policy_curves(requests, POLICIES, SIZES, sampling=sampling)
    for curve in found.policies:
        whole = exact[curve.policy].rates
        if curve.policy is Policy.LRU:
            assert curve.rates == whole and curve.errors == (0.0,) * 3, "exact either way"
            continue
        assert all(error > 0 for error in curve.errors)
        assert curve.rates == pytest.approx(whole, abs=0.03)
    assert max(found.control) > 0


def test_the_gap_to_lru_is_nearer_than_the_sample_alone(
    requests: Requests, exact: dict[Policy, PolicyCurve]
) -> None:
    found = policy_curves(requests, [Policy.LRU, Policy.FIFO], SIZES, sampling=Sampling(rate=0.4))
    fifo = next(curve for curve in found.policies if curve.policy is Policy.FIFO)
    off = [abs(a - b) for a, b in zip(fifo.rates, exact[Policy.FIFO].rates, strict=True)]
    assert sum(off) < sum(found.control)


def test_progress_counts_every_simulation_once() -> None:
    told: list[tuple[int, int]] = []
    sampling = Sampling(rate=0.5, salts=(1, 2))
    requests = sessions(40, 3)
    policy_curves(requests, POLICIES, [20, 50], sampling=sampling, progress=lambda *at: told.append(at))
    assert told == [(done, 12) for done in range(1, 13)]


def test_only_large_traces_are_sampled() -> None:
    assert sampling_for(2_000_000).rate == 1
    assert sampling_for(20_000_000).rate == pytest.approx(0.05)


def test_one_salt_gives_no_error() -> None:
    with pytest.raises(ValueError, match="salts: 1 give no error"):
        Sampling(rate=0.5, salts=(7, 7))


def test_a_trace_that_is_not_chained_is_refused() -> None:
    with pytest.raises(ValueError, match="not prefix-chained"):
        policy_curves(trace([(1, 2), (3, 2)]), [Policy.LRU], [1], sampling=Sampling(rate=1.0))
