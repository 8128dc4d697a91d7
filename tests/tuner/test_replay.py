"""Replay: the same verdicts from the ledger alone, and every difference named."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from kvtune_api.experiment import ExperimentStatus, KVCacheExperiment
from kvtune_api.knobs import CacheConfig
from kvtune_api.names import Outcome, OutcomeReason
from kvtune_api.status import Pair
from kvtune_api.units import Duration
from kvtune_tuner.ledger import trimmed
from kvtune_tuner.replay import replay
from tests.tuner.ledgers import experiment, with_block
from tests.tuner.loop import loop
from tests.tuner.specs import gaining


def _finished(gain: float = 0.06) -> KVCacheExperiment:
    run = loop(gaining(gain))
    run.until_ended()
    return run.experiments["chat-00001"]


@pytest.fixture(scope="module")
def promoted() -> KVCacheExperiment:
    """A promoted experiment as the plan wrote it."""
    return _finished()


def _with(found: KVCacheExperiment, **changes: object) -> KVCacheExperiment:
    return replace(found, status=replace(found.status, **changes))  # type: ignore[arg-type]


def test_an_honest_ledger_has_no_difference(promoted: KVCacheExperiment) -> None:
    found = replay(promoted)
    assert found.differences == () and found.notes == ()
    assert found.verdicts == len(promoted.status.decisions) + 1, "and the watch"


def test_a_changed_count_shows(promoted: KVCacheExperiment) -> None:
    rows = list(promoted.status.rows)
    spot = next(i for i, row in enumerate(rows) if row.block == 0)
    honest = rows[spot].candidate
    assert honest is not None
    rows[spot] = replace(rows[spot], candidate=replace(honest, hit_tokens=honest.prompt_tokens))
    text = "\n".join(replay(_with(promoted, rows=tuple(rows))).differences)
    assert "block 0 attempt 0: ln e of superior is recorded as" in text


def test_a_dropped_row_that_was_counted_shows(promoted: KVCacheExperiment) -> None:
    rows = tuple(
        replace(r, dropped="Restarted") if r.block == 1 and r.pair == 0 else r for r in promoted.status.rows
    )
    text = "\n".join(replay(_with(promoted, rows=rows)).differences)
    assert "deltas is recorded as 6 and recomputed as 5" in text


def test_a_changed_run_in_shows(promoted: KVCacheExperiment) -> None:
    text = "\n".join(replay(_with(promoted, noise_objective=0.05)).differences)
    assert "run-in: s0 is recorded as 0.05 and recomputed as" in text


def test_a_decision_without_rows_shows(promoted: KVCacheExperiment) -> None:
    rows = tuple(row for row in promoted.status.rows if row.block != 1)
    text = "\n".join(replay(_with(promoted, rows=rows)).differences)
    assert "block 1: a decision is recorded but its rows are not there" in text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"outcome": Outcome.REJECTED, "reason": OutcomeReason.HARM_OBJECTIVE},
            "outcome Rejected(HarmObjective), but",
        ),
        (
            {"outcome": Outcome.INCONCLUSIVE, "reason": OutcomeReason.MAX_PAIRS},
            "outcome Inconclusive(MaxPairs)",
        ),
        ({"outcome": Outcome.ROLLED_BACK, "reason": OutcomeReason.WATCH}, "outcome RolledBack(Watch), but"),
    ],
)
def test_an_outcome_that_does_not_follow_shows(
    promoted: KVCacheExperiment, changes: dict[str, object], says: str
) -> None:
    assert says in "\n".join(replay(_with(promoted, **changes)).differences)


def test_a_promotion_against_the_watch_shows(promoted: KVCacheExperiment) -> None:
    watch = promoted.status.watch
    assert watch is not None
    bad = replace(watch, differences=tuple(-0.5 for _ in watch.differences))
    assert "outcome Promoted(Superior), but the watch says" in "\n".join(
        replay(_with(promoted, watch=bad)).differences
    )


def test_a_promotion_of_what_was_not_decided_shows() -> None:
    found = _with(_finished(-0.06), outcome=Outcome.PROMOTED, reason=OutcomeReason.SUPERIOR)
    assert "outcome Promoted(Superior), but the last verdict is Reject" in replay(found).differences


def test_a_run_in_that_has_left_the_ring_is_a_note_and_no_difference(promoted: KVCacheExperiment) -> None:
    ring = trimmed(promoted, limit=24)
    assert ring.status.checkpoint is None and ring.status.rows[0].block == -1
    found = replay(ring)
    assert found.differences == () and found.notes == (
        "the run-in has left the ring: s0 is taken as recorded",
    )


def test_an_experiment_that_measured_nothing_has_nothing_to_replay() -> None:
    found = replay(replace(experiment(), status=ExperimentStatus()))
    assert found.verdicts == 0 and found.differences == () and found.notes


def test_replay_starts_at_a_checkpoint_and_says_so() -> None:
    found = experiment(max_pairs=1000)
    for block in range(40):
        found = with_block(found, block, [0.002, -0.002, 0.001])
    result = replay(found)
    assert result.differences == () and result.verdicts == len(found.status.decisions)
    checkpoint = found.status.checkpoint
    assert checkpoint is not None
    assert result.notes == (f"starts at the checkpoint after {checkpoint.blocks} blocks",)
    assert checkpoint.blocks + result.verdicts == 40


def _spec(found: KVCacheExperiment, **changes: object) -> KVCacheExperiment:
    return replace(found, spec=replace(found.spec, **changes))  # type: ignore[arg-type]


EDITS: dict[str, Callable[[KVCacheExperiment], KVCacheExperiment]] = {
    "another candidate": lambda e: _spec(e, candidate=CacheConfig(cache_ttl=Duration("239s"))),
    "another seed": lambda e: _spec(e, seed=e.spec.seed + 1),
    "another number of pairs": lambda e: _spec(e, max_pairs=e.spec.max_pairs + 1),
    "agents of a pair exchanged": lambda e: _spec(
        e, pairs=tuple(Pair(first=p.second, second=p.first) for p in e.spec.pairs)
    ),
    "all coins turned": lambda e: _with(
        e, rows=tuple(replace(row, coin=not row.coin) for row in e.status.rows)
    ),
    "the first decision removed": lambda e: _with(e, decisions=e.status.decisions[1:]),
    "no watch": lambda e: _with(e, watch=None),
    "a kinder watch": lambda e: _with(
        e, watch=replace(e.status.watch, pair_difference=e.status.watch.pair_difference - 0.1)
    ),
    "another noise of the watch": lambda e: _with(e, watch=replace(e.status.watch, sd_delta=9.0)),
    "a better effect": lambda e: _with(e, evidence=replace(e.status.evidence, effect=0.5)),
    "aborted instead": lambda e: _with(e, outcome=Outcome.ABORTED, reason=OutcomeReason.USER),
    "rolled back by a breaker that saw nothing": lambda e: _with(
        e, outcome=Outcome.ROLLED_BACK, reason=OutcomeReason.BREAKER
    ),
    "the run-in removed": lambda e: _with(
        e, rows=tuple(row for row in e.status.rows if row.block >= 0), noise_objective=0.02
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_one_thing_shows(edit: str, promoted: KVCacheExperiment) -> None:
    assert replay(EDITS[edit](promoted)).differences != ()


def test_a_rejection_that_is_called_an_abort_shows() -> None:
    rejected = _finished(-0.06)
    assert replay(rejected).differences == ()
    text = "\n".join(replay(_with(rejected, outcome=Outcome.ABORTED, reason=OutcomeReason.USER)).differences)
    assert "but the last verdict is Reject" in text
