"""Samples of a trace."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtune_cache.requests import Requests
from kvtune_lab.capacity.sampling import sampled, uniform
from kvtune_lab.capacity.stack import lru_curve, measure, plain_room
from tests.lab.capacity.traces import branching, sessions, skewed


@settings(max_examples=50)
@given(branching(), st.floats(0.2, 0.9), st.integers(0, 9))
def test_a_sample_is_chained_and_holds_all_references_of_its_blocks(
    requests: Requests, rate: float, salt: int
) -> None:
    distinct = max(requests.blocks) + 1
    stays = uniform(np.arange(distinct, dtype=np.uint64), salt) < rate
    if not stays.any():
        return
    sample = sampled(requests, rate=rate, salt=salt).requests
    assert len(sample.starts) == len(requests.starts)
    assert len(sample.blocks) == sum(bool(stays[x]) for x in requests.blocks)
    kept = [t for x, t in zip(requests.blocks, requests.tokens, strict=True) if stays[x]]
    assert list(sample.tokens) == kept
    room = plain_room(int(stays.sum()), len(requests.starts) - 1)
    assert measure(sample, room) == -1, "not chained"


def test_the_whole_trace_is_a_sample_of_itself() -> None:
    requests = sessions(3, 3)
    assert sampled(requests, rate=1, salt=5).requests is requests


def test_samples_estimate_the_curve() -> None:
    requests = skewed(3_000)
    whole = lru_curve(requests)
    samples = [sampled(requests, rate=0.25, salt=salt) for salt in range(1, 9)]
    for capacity in (200, 400, 800):
        rates = [lru_curve(sample.requests).rate(sample.scaled(capacity)) for sample in samples]
        assert np.mean(rates) == pytest.approx(whole.rate(capacity), abs=0.05)


def test_hashes_are_spread_evenly_and_differ_by_salt() -> None:
    first, second = (uniform(np.arange(10_000, dtype=np.uint64), salt) for salt in (1, 2))
    assert np.histogram(first, 10, (0, 1))[0].min() > 900
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05


@pytest.mark.parametrize("rate", [0, -0.1, 1.1, float("nan")])
def test_a_rate_that_is_no_share_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=r"sample: .* is not within"):
        sampled(sessions(1, 1), rate=rate, salt=1)


def test_a_rate_that_draws_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="draws none of 3 blocks"):
        sampled(sessions(1, 1), rate=1e-9, salt=1)
