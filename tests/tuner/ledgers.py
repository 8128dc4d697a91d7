"""Ledgers made by hand: rows of chosen Deltas, without a pool."""

from collections.abc import Sequence
from dataclasses import replace

from kvtune_api.codec import digest
from kvtune_api.experiment import ExperimentSpec, ExperimentStatus, GuardrailPlan, KVCacheExperiment
from kvtune_api.ledger import Figures, Row
from kvtune_api.metadata import Metadata
from kvtune_api.status import Pair
from kvtune_tuner.assign import coin
from kvtune_tuner.ledger import decision, read, trimmed
from tests.tuner.specs import BETTER, DEFAULT_SPEC, START

SEED = 12345
REQUESTS = 600.0
TOKENS = 1_200_000.0


def experiment(pairs: int = 3, *, max_pairs: int = 24, noise: float = 0.01) -> KVCacheExperiment:
    """An experiment whose noise is known and whose ledger is empty."""
    spec = ExperimentSpec(
        policy="chat",
        policy_uid="uid-chat",
        policy_spec=DEFAULT_SPEC,
        policy_hash=digest(DEFAULT_SPEC),
        number=1,
        incumbent=START,
        candidate=BETTER,
        strategy="Ladder",
        seed=SEED,
        pairs=tuple(
            Pair(first=f"http://127.0.0.1:{9000 + 2 * i}", second=f"http://127.0.0.1:{9001 + 2 * i}")
            for i in range(pairs)
        ),
        pairing="0123456789abcdef",
        max_pairs=max_pairs,
        run_in=False,
    )
    return KVCacheExperiment(
        metadata=Metadata(name="chat-00001"),
        spec=spec,
        status=ExperimentStatus(
            spec_digest=digest(spec),
            noise_objective=noise,
            guardrails=(GuardrailPlan(name="ttft", margin=0.03, sd=0.01),),
        ),
    )


def figures(hit_rate: float, share: float = 0.8, roots: float | None = 100.0) -> Figures:
    """What one agent counted in one window."""
    return Figures(
        requests=REQUESTS,
        prompt_tokens=TOKENS,
        hit_tokens=hit_rate * TOKENS,
        passes=1.25,
        bytes_down=123456789.0,
        within=share * REQUESTS,
        timed=REQUESTS,
        roots=roots,
    )


def rows(
    block: int, deltas: Sequence[float | None], *, attempt: int = 0, share: float = 0.0
) -> tuple[Row, ...]:
    """The rows of one block; a Delta of None is a pair whose second epoch was dropped."""
    found = []
    for epoch in (1, 2):
        for pair, delta in enumerate(deltas):
            start = 1893456000.0 + 1000 * block + 500 * epoch
            lost = delta is None and epoch == 2
            found.append(
                Row(
                    block=block,
                    attempt=attempt,
                    epoch=1 if epoch == 1 else 2,
                    pair=pair,
                    coin=coin(SEED, block=block, pair_index=pair, attempt=attempt),
                    start=start,
                    end=start + 120,
                    candidate=None if lost else figures(0.5 + (delta or 0.0), 0.8 + share),
                    control=figures(0.5),
                    dropped="Restarted" if lost else None,
                )
            )
    return tuple(found)


def with_block(
    found: KVCacheExperiment,
    block: int,
    deltas: Sequence[float | None],
    *,
    trim: bool = True,
    judge: bool = True,
) -> KVCacheExperiment:
    """The experiment after one more block, judged as the plan does."""
    status = replace(found.status, rows=(*found.status.rows, *rows(block, deltas)))
    found = replace(found, status=status)
    if trim:
        found = trimmed(found)
    return judged(found) if judge else found


def judged(found: KVCacheExperiment) -> KVCacheExperiment:
    """The experiment with the decision on its last block recorded."""
    last = read(found)[-1]
    return replace(found, status=replace(found.status, decisions=(*found.status.decisions, decision(last))))
