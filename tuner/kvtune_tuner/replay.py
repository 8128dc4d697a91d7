"""Recompute every verdict of an experiment from its ledger alone, and say where it differs. Pure."""

import math
from dataclasses import dataclass

from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.ledger import LEDGER_VERSION, Decision
from kvtune_tuner.compare import s0_from_run_in
from kvtune_tuner.consistency import inconsistencies
from kvtune_tuner.ledger import Reading, decision, read, run_in_deltas
from kvtune_tuner.switching import RUN_IN_BLOCKS

TOLERANCE = 1e-9
"""Relative difference of a log e-value that is still the same number written twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """What a replay found. `verdicts` were recomputed; `notes` say what the ledger no longer holds."""

    verdicts: int
    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def replay(experiment: KVCacheExperiment) -> ReplayResult:
    """Compare each recorded decision, the noise, the watch and the outcome with what the rows say."""
    record = experiment.status
    if record.ledger_version > LEDGER_VERSION:
        text = f"ledgerVersion {record.ledger_version} is newer than {LEDGER_VERSION}: not replayed"
        return ReplayResult(verdicts=0, differences=(text,))
    if record.noise_objective is None:
        return ReplayResult(verdicts=0, notes=("no test block was measured",))
    readings = {(r.block.number, r.block.attempt): r for r in read(experiment)}
    differences = [*_noise(experiment)]
    verdicts = 0
    for recorded in record.decisions:
        reading = readings.get((recorded.block, recorded.attempt))
        if reading is None:
            differences.append(f"block {recorded.block}: a decision is recorded but its rows are not there")
            continue
        verdicts += 1
        differences += _compared(recorded, reading)
    verdicts += record.watch is not None and len(record.watch.differences) > 0
    differences += inconsistencies(experiment, list(readings.values()))
    covered = record.checkpoint.blocks if record.checkpoint else 0
    notes = [f"starts at the checkpoint after {covered} blocks"] if covered else []
    if experiment.spec.run_in and not _has_run_in(experiment):
        notes.append("the run-in has left the ring: s0 is taken as recorded")
    return ReplayResult(verdicts=verdicts, differences=tuple(differences), notes=tuple(notes))


def _compared(recorded: Decision, reading: Reading) -> list[str]:
    found, where = decision(reading), f"block {recorded.block} attempt {recorded.attempt}"
    differences = [
        f"{where}: {name} is recorded as {old} and recomputed as {new}"
        for name, old, new in (
            ("verdict", recorded.verdict, found.verdict),
            ("reason", recorded.reason, found.reason),
            ("deltas", recorded.deltas, found.deltas),
        )
        if old != new
    ]
    for test in sorted(recorded.e_values.keys() | found.e_values.keys()):
        old, new = recorded.e_values.get(test), found.e_values.get(test)
        if old is None or new is None or not math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            differences.append(f"{where}: ln e of {test} is recorded as {old} and recomputed as {new}")
    return differences


def _has_run_in(experiment: KVCacheExperiment) -> bool:
    """Whether the ring still holds the whole run-in: rows leave it from the oldest on."""
    rows = experiment.status.rows
    return bool(rows) and (rows[0].block, rows[0].attempt, rows[0].epoch) == (RUN_IN_BLOCKS[0], 0, 1)


def _noise(experiment: KVCacheExperiment) -> list[str]:
    record = experiment.status
    if not experiment.spec.run_in or not _has_run_in(experiment):
        return []
    deltas = [d.objective for d in run_in_deltas(experiment, ()) if d.objective is not None]
    if len(deltas) < 2:
        return ["run-in: s0 is recorded but fewer than 2 Deltas are in the ledger"]
    found = max(s0_from_run_in(deltas), 1e-4)
    if record.noise_objective is not None and math.isclose(found, record.noise_objective, rel_tol=TOLERANCE):
        return []
    return [f"run-in: s0 is recorded as {record.noise_objective} and recomputed as {found}"]
