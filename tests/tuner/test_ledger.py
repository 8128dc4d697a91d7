"""The ledger: rows to Deltas to verdicts, blind to arms, and bounded by a checkpoint."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtune_api import codec
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.ledger import RING_ROWS
from kvtune_tuner.ledger import (
    blocks,
    decision,
    named_tests,
    ratio,
    read,
    run_in_deltas,
    test_deltas,
    trimmed,
)
from kvtune_tuner.quality import RatioStanding
from kvtune_tuner.replay import replay
from kvtune_tuner.verdict import Continue, Inconclusive, Promote, Reject
from tests.tuner.ledgers import experiment, figures, rows, with_block

DELTAS = st.lists(
    st.lists(st.one_of(st.none(), st.floats(-0.1, 0.1)), min_size=3, max_size=3), min_size=1, max_size=12
)


def _filled(deltas: list[list[float | None]], *, trim: bool = True) -> KVCacheExperiment:
    found = experiment(max_pairs=10_000)
    for block, each in enumerate(deltas):
        found = with_block(found, block, each, trim=trim)
    return found


def test_each_whole_block_has_a_verdict_and_an_open_one_none() -> None:
    found = _filled([[0.04, 0.05, 0.06]] * 3)
    assert [type(reading.verdict) for reading in read(found)] == [Continue, Continue, Promote]
    begun = replace(found.status, rows=(*found.status.rows, *rows(3, [0.0] * 3)[:3]))
    assert len(read(replace(found, status=begun))) == 3


def test_harm_rejects_and_nothing_at_the_end_is_inconclusive() -> None:
    assert isinstance(read(_filled([[-0.05] * 3] * 3))[-1].verdict, Reject)
    undecided = experiment(max_pairs=6)
    for block in range(2):
        undecided = with_block(undecided, block, [0.01, -0.01, 0.0])
    assert isinstance(read(undecided)[-1].verdict, Inconclusive)


def test_a_pair_with_a_dropped_epoch_says_nothing_and_is_not_zero() -> None:
    found = _filled([[0.04, None, 0.05]])
    assert len(test_deltas(found)) == 2
    assert read(found)[-1].tests.n == 2


def test_run_in_blocks_enter_no_test() -> None:
    found = experiment()
    status = replace(found.status, rows=(*rows(-2, [0.01] * 3), *rows(-1, [-0.01] * 3), *rows(0, [0.02] * 3)))
    found = replace(found, status=status)
    assert [block.number for block in blocks(status.rows, run_in=True)] == [-2, -1]
    assert len(run_in_deltas(found, ("ttft",))) == 6
    assert read(found)[-1].tests.n == 3


@settings(max_examples=40, deadline=None)
@given(DELTAS)
def test_swapped_arm_labels_mirror_every_test_and_drop_the_same(deltas: list[list[float | None]]) -> None:
    found = _filled(deltas)
    swapped = replace(
        found,
        status=replace(
            found.status,
            rows=tuple(
                replace(row, candidate=row.control, control=row.candidate, coin=not row.coin)
                for row in found.status.rows
            ),
            guardrails=(),
            decisions=(),
        ),
        spec=replace(found.spec, candidate=found.spec.incumbent, incumbent=found.spec.candidate),
    )
    plain = replace(found, status=replace(found.status, guardrails=(), decisions=()))
    for ours, theirs in zip(read(plain), read(swapped), strict=True):
        assert ours.tests.n == theirs.tests.n
        left, right = named_tests(ours.tests), named_tests(theirs.tests)
        assert left["superior"].log_e == pytest.approx(right["harm"].log_e, abs=1e-9)
        assert left["harm"].log_e == pytest.approx(right["superior"].log_e, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(DELTAS, st.integers(12, 40))
def test_a_trimmed_ledger_comes_to_the_verdicts_of_the_whole_one(
    deltas: list[list[float | None]], limit: int
) -> None:
    whole = _filled(deltas, trim=False)
    ring = trimmed(whole, limit=limit)
    assert len(ring.status.rows) <= max(limit, 12)
    expected = read(whole)[-len(read(ring)) :]
    for ours, theirs in zip(expected, read(ring), strict=True):
        assert type(ours.verdict) is type(theirs.verdict)
        assert ours.verdict.reason == theirs.verdict.reason
        assert ours.tests.n == theirs.tests.n
        assert decision(ours).e_values == pytest.approx(decision(theirs).e_values, rel=1e-9, abs=1e-9)
        assert ours.candidate_roots == theirs.candidate_roots
    assert replay(ring).differences == () and replay(whole).differences == ()


@pytest.mark.parametrize(("pairs", "blocks"), [(8, 625), (1, 300)])
def test_ten_thousand_pair_epochs_fit_into_64_kib(pairs: int, blocks: int) -> None:
    rng = np.random.default_rng(3)
    found = experiment(pairs, max_pairs=10_000)
    for block in range(blocks):
        deltas = [float(x) for x in rng.normal(0.0, 0.01, pairs)]
        found = with_block(found, block, deltas, judge=block > blocks - 70)
    assert read(found)[-1].tests.n == pairs * blocks
    assert len(found.status.rows) <= RING_ROWS and len(found.status.decisions) <= len(read(found))
    assert len(codec.canonical(found)) < 64 * 1024
    assert codec.parse(KVCacheExperiment, codec.dump(found)) == found
    result = replay(found)
    assert result.differences == () and "starts at the checkpoint" in result.notes[0]


def test_the_ring_keeps_the_last_two_blocks_however_large_they_are() -> None:
    found = experiment(300, max_pairs=10_000)
    for block in range(4):
        found = with_block(found, block, [0.001] * 300)
    assert {row.block for row in found.status.rows} == {2, 3}
    assert read(found)[-1].tests.n == 1200


def test_blocks_that_were_never_whole_leave_the_ring_without_a_trace_in_the_tests() -> None:
    found = experiment()
    status = replace(found.status, rows=(*rows(0, [0.02] * 3)[:3], *rows(0, [0.02] * 3, attempt=1)))
    found = replace(found, status=status)
    ring = trimmed(
        replace(found, status=replace(status, rows=(*status.rows, *rows(1, [0.02] * 3)))), limit=12
    )
    assert ring.status.checkpoint is None
    assert read(ring)[-1].tests.n == 6


def test_session_roots_count_only_where_both_agents_served_both_arms() -> None:
    found = experiment()
    uneven = tuple(
        replace(row, candidate=figures(0.5, roots=900.0) if row.candidate else None)
        if row.pair == 1 and row.epoch == 1
        else row
        for row in rows(0, [0.0, None, 0.0])
    )
    last = read(replace(found, status=replace(found.status, rows=uneven)))[-1]
    assert (last.candidate_roots, last.control_roots) == (400.0, 400.0)
    assert ratio(last).standing is RatioStanding.OK


def test_agents_that_do_not_count_roots_make_the_gate_unavailable_for_good() -> None:
    found = experiment()
    without = tuple(replace(row, candidate=figures(0.5, roots=None)) for row in rows(0, [0.0] * 3))
    status = replace(found.status, rows=(*without, *rows(1, [0.0] * 3)))
    last = read(replace(found, status=status))[-1]
    assert ratio(last).standing is RatioStanding.NOT_AVAILABLE
