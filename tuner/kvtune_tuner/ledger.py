"""Read an experiment's ledger: rows of raw counter increases -> Deltas -> tests -> verdict.

The live plan and `kvtune replay` both come here, so a verdict can only be what its ledger says. The ring is
bounded: blocks that leave it are folded into a checkpoint of every test, and reading starts there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.ledger import RING_ROWS, Checkpoint, Decision, Figures, Row, TestState
from kvtune_tuner.compare import EProcess, Guardrail, PairDelta, Tests
from kvtune_tuner.effect import pair_delta
from kvtune_tuner.quality import Issue, SampleRatio, sample_ratio, sample_ratio_issue
from kvtune_tuner.scoring import guardrail_value, score
from kvtune_tuner.sli import Missing
from kvtune_tuner.verdict import Rules, Verdict, verdict

SUPERIOR = "superior"
HARM = "harm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The rows of one block, all pairs and both epochs."""

    number: int
    attempt: int
    rows: tuple[Row, ...]


def blocks(rows: Sequence[Row], *, run_in: bool) -> tuple[Block, ...]:
    """The complete blocks of the ring in order; run-in blocks have negative numbers."""
    wanted = [row for row in rows if (row.block < 0) == run_in]
    grouped = groupby(wanted, key=lambda row: (row.block, row.attempt))
    found = (Block(number=number, attempt=attempt, rows=tuple(group)) for (number, attempt), group in grouped)
    return tuple(block for block in found if {row.epoch for row in block.rows} == {1, 2})


def block_deltas(
    block: Block, experiment: KVCacheExperiment, guardrails: Iterable[str]
) -> tuple[PairDelta, ...]:
    """One Delta per pair that counts, in pair order. A pair with a dropped row says nothing."""
    names = tuple(guardrails)
    deltas = []
    for _, group in groupby(sorted(block.rows, key=_by_pair), key=lambda row: row.pair):
        epochs = tuple(group)
        if len(epochs) != 2 or any(row.dropped is not None for row in epochs):
            continue
        deltas.append(_pair_delta(epochs, experiment, names))
    return tuple(deltas)


def _by_pair(row: Row) -> tuple[int, int]:
    return (row.pair, row.epoch)


def _pair_delta(epochs: Sequence[Row], experiment: KVCacheExperiment, names: Sequence[str]) -> PairDelta:
    spec = experiment.spec
    scores = [
        (
            score(row.candidate, row.end - row.start, spec.candidate if row.block >= 0 else spec.incumbent,
                  spec.policy_spec),
            score(row.control, row.end - row.start, spec.incumbent, spec.policy_spec),
        )
        for row in epochs
    ]  # fmt: skip
    guards = {
        name: pair_delta(*[
            (
                guardrail_value(name, row.candidate, row.end - row.start),
                guardrail_value(name, row.control, row.end - row.start),
            )
            for row in epochs
        ])
        for name in names
    }  # fmt: skip
    return PairDelta(
        objective=_or_none(pair_delta(scores[0], scores[1])),
        guardrails={name: _or_none(value) for name, value in guards.items()},
    )


def _or_none(value: float | Missing) -> float | None:
    return None if isinstance(value, Missing) else value


def empty_tests(experiment: KVCacheExperiment) -> Tests:
    """The tests before the first block. The noise must have been measured."""
    status = experiment.status
    assert status.noise_objective is not None, "tests start after the noise is known"
    return Tests.start(
        status.noise_objective,
        dmin=experiment.spec.policy_spec.experiment.min_effect,
        guardrails=[Guardrail(name=g.name, margin=g.margin, s0=g.sd) for g in status.guardrails],
    )


def tests_at_ring_start(experiment: KVCacheExperiment) -> Tests:
    """The tests as they stood before the first block that is still in the ring."""
    empty, checkpoint = empty_tests(experiment), experiment.status.checkpoint
    if checkpoint is None:
        return empty
    states = {name: _process(state) for name, state in checkpoint.tests.items()}
    return replace(
        empty,
        superior=states[SUPERIOR],
        harm=states[HARM],
        guardrails=tuple(
            replace(g, noninferior=states[f"{g.name}.noninferior"], harm=states[f"{g.name}.harm"])
            for g in empty.guardrails
        ),
        blocks=checkpoint.blocks,
        recent_blocks=checkpoint.recent_blocks,
    )


def named_tests(tests: Tests) -> dict[str, EProcess]:
    """Every test by its name in the ledger."""
    named = {SUPERIOR: tests.superior, HARM: tests.harm}
    for guardrail in tests.guardrails:
        named[f"{guardrail.name}.noninferior"] = guardrail.noninferior
        named[f"{guardrail.name}.harm"] = guardrail.harm
    return named


def _process(state: TestState) -> EProcess:
    return EProcess(
        s0=state.s0,
        n=state.n,
        m=state.mean,
        q=state.q,
        sum_x=state.sum,
        log_products=state.log_products,
        log_e_max=state.log_e_max,
    )


def _state(test: EProcess) -> TestState:
    return TestState(
        s0=test.s0,
        n=test.n,
        mean=test.m,
        q=test.q,
        sum=test.sum_x,
        log_products=test.log_products,
        log_e_max=test.log_e_max,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the ledger says at one block's end."""

    block: Block
    tests: Tests
    verdict: Verdict
    candidate_roots: float | None
    control_roots: float | None


def read(experiment: KVCacheExperiment) -> tuple[Reading, ...]:
    """The tests and the verdict after every complete test block of the ring."""
    checkpoint = experiment.status.checkpoint
    tests = tests_at_ring_start(experiment)
    names = [guardrail.name for guardrail in experiment.status.guardrails]
    settings = experiment.spec.policy_spec.experiment
    rules = Rules(
        alpha=settings.alpha,
        min_pairs=settings.min_pairs,
        max_pairs=experiment.spec.max_pairs,
        unmeasured_is_no_data=experiment.status.ledger_version > 1,
    )
    roots: tuple[float | None, float | None] = (
        (checkpoint.candidate_roots, checkpoint.control_roots) if checkpoint else (0.0, 0.0)
    )
    readings = []
    for block in blocks(experiment.status.rows, run_in=False):
        tests = tests.add_block(block_deltas(block, experiment, names))
        roots = _more_roots(roots, block)
        readings.append(
            Reading(
                block=block,
                tests=tests,
                verdict=verdict(tests, rules, quality=_issues(roots)),
                candidate_roots=roots[0],
                control_roots=roots[1],
            )
        )
    return tuple(readings)


def _more_roots(roots: tuple[float | None, float | None], block: Block) -> tuple[float | None, float | None]:
    """Add the roots of pairs that count in both epochs: only there has each agent served both arms once."""
    lost = {row.pair for row in block.rows if row.dropped is not None}
    whole = [row for row in block.rows if row.pair not in lost]
    return (
        _plus(roots[0], [row.candidate for row in whole]),
        _plus(roots[1], [row.control for row in whole]),
    )


def _plus(total: float | None, figures: Iterable[Figures | None]) -> float | None:
    for one in figures:
        if total is None or one is None or one.roots is None:
            return None
        total += one.roots
    return total


def ratio(reading: Reading) -> SampleRatio:
    """The sample-ratio gate after a block."""
    return sample_ratio(reading.candidate_roots, reading.control_roots)


def _issues(roots: tuple[float | None, float | None]) -> tuple[Issue, ...]:
    issue = sample_ratio_issue(sample_ratio(*roots))
    return (issue,) if issue else ()


def decision(reading: Reading) -> Decision:
    """The verdict in the form that is recorded and replayed."""
    return Decision(
        block=reading.block.number,
        attempt=reading.block.attempt,
        deltas=reading.tests.n,
        verdict=type(reading.verdict).__name__,
        reason=str(reading.verdict.reason),
        e_values={name: test.log_e for name, test in named_tests(reading.tests).items()},
    )


def run_in_deltas(experiment: KVCacheExperiment, guardrails: Iterable[str]) -> tuple[PairDelta, ...]:
    """The Deltas of the run-in: two blocks with equal configurations. They enter no test."""
    names = tuple(guardrails)
    return tuple(
        delta
        for block in blocks(experiment.status.rows, run_in=True)
        for delta in block_deltas(block, experiment, names)
    )


def test_deltas(experiment: KVCacheExperiment) -> tuple[PairDelta, ...]:
    """The Deltas of the test blocks that are still in the ring."""
    names = [guardrail.name for guardrail in experiment.status.guardrails]
    return tuple(
        delta
        for block in blocks(experiment.status.rows, run_in=False)
        for delta in block_deltas(block, experiment, names)
    )


test_deltas.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it by its name


def trimmed(experiment: KVCacheExperiment, *, limit: int = RING_ROWS) -> KVCacheExperiment:
    """Fold the oldest test blocks into the checkpoint until the ring fits; the last two always stay."""
    status = experiment.status
    while len(status.rows) > limit and (dropped := _foldable(status.rows)):
        if dropped[0].block >= 0:
            reading = read(replace(experiment, status=replace(status, rows=dropped)))
            status = replace(status, checkpoint=_checkpoint(reading[-1], status.checkpoint) if reading else
                             status.checkpoint)  # fmt: skip
        status = replace(
            status,
            rows=status.rows[len(dropped) :],
            decisions=tuple(d for d in status.decisions if _key(d) != _key(dropped[0])),
        )
        experiment = replace(experiment, status=status)
    return replace(experiment, status=status)


def _key(item: Row | Decision) -> tuple[int, int]:
    return (item.block, item.attempt)


def _foldable(rows: Sequence[Row]) -> tuple[Row, ...]:
    keys = list(dict.fromkeys(_key(row) for row in rows))
    if len(keys) <= 2:
        return ()
    return tuple(row for row in rows if _key(row) == keys[0])


def _checkpoint(reading: Reading, before: Checkpoint | None) -> Checkpoint:
    return Checkpoint(
        blocks=(before.blocks if before else 0) + 1,
        recent_blocks=reading.tests.recent_blocks,
        tests={name: _state(test) for name, test in named_tests(reading.tests).items()},
        candidate_roots=reading.candidate_roots,
        control_roots=reading.control_roots,
    )
