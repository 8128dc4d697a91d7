"""Rows of the ledger: raw increases, and drops that are blind to the arms."""

import pytest

from kvtune_api.names import Phase
from kvtune_tuner.sli import Missing, MissingReason
from tests.fakes.sim import PoolSettings
from tests.tuner.loop import Loop, experimenting, loop
from tests.tuner.specs import gaining


def _first_test_rows(run: Loop) -> None:
    run.until(lambda: any(row.block >= 0 for row in run.rows))


def test_a_row_holds_the_increases_of_both_agents_over_its_window() -> None:
    run = loop(gaining())
    _first_test_rows(run)
    row = next(row for row in run.rows if row.block == 0)
    pair = run.experiment.spec.pairs[row.pair]
    candidate, control = (pair.second, pair.first) if row.coin else (pair.first, pair.second)
    for name, figures in ((candidate, row.candidate), (control, row.control)):
        start, end = (run.pool.counters(name, at, run.now) for at in (row.start, row.end))
        assert not isinstance(start, Missing) and not isinstance(end, Missing) and figures is not None
        assert end.requests is not None and start.requests is not None
        assert figures.requests == end.requests - start.requests
        assert end.hit_tokens is not None and start.hit_tokens is not None
        assert figures.hit_tokens == pytest.approx(end.hit_tokens - start.hit_tokens)
    assert row.end - row.start == 60


def test_arms_swap_between_the_epochs_of_a_block() -> None:
    run = loop(gaining())
    run.until_ended()
    coins: dict[tuple[int, int, int], bool] = {}
    for row in run.rows:
        if row.block >= 0:
            coins[row.block, row.pair, row.epoch] = row.coin
    for (block, pair, epoch), coin in coins.items():
        assert coins[block, pair, 3 - epoch] == coin, "one coin per pair and block"


@pytest.mark.parametrize("which", [0, 1])
def test_the_reason_of_a_drop_is_that_of_the_agent_whichever_arm_it_is_in(which: int) -> None:
    run = experimenting(Phase.WASHOUT)
    pair = run.experiment.spec.pairs[0]
    name = (pair.first, pair.second)[which]
    run.pool.agents[name].missing = Missing(reason=MissingReason.INCONSISTENT, message="buckets fall")
    _first_test_rows(run)
    assert [row.dropped for row in run.rows if row.block == 0] == ["Inconsistent", None, None]


def test_an_epoch_with_too_few_requests_counts_for_no_pair() -> None:
    slow = PoolSettings(agents=6, seed=1, noise_sd=0.005, request_rate=2.0)
    run = loop(gaining(), settings=slow)
    run.until(lambda: bool(run.rows))
    assert {row.dropped for row in run.rows} == {"TooFewRequests"}
    run.until_ended()
    assert run.outcome() == "Inconclusive(NoData)"


def test_a_break_in_the_traffic_inside_a_window_drops_the_pair() -> None:
    run = experimenting(Phase.MEASURING)
    epoch = run.experiment.status.epoch
    assert epoch is not None
    run.until(lambda: run.now >= (epoch.measure_from + epoch.measure_to) / 2)
    pair = run.experiment.spec.pairs[1]
    for name in (pair.first, pair.second):
        run.pool.set_traffic(run.now, request_rate=30.0, name=name)
    _first_test_rows(run)
    assert [row.dropped for row in run.rows if row.block == 0] == [None, "NotStationary", None]


def test_agents_that_do_not_count_roots_leave_them_out_of_their_rows() -> None:
    run = loop(gaining(), settings=PoolSettings(agents=6, seed=1, noise_sd=0.005, roots_per_request=None))
    _first_test_rows(run)
    assert all(row.candidate is not None and row.candidate.roots is None for row in run.rows)
