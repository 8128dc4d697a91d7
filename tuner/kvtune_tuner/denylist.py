"""Remember what lost, so that it is not tried again under the same incumbent and workload.

Called by every proposer. What ended without a verdict on the candidate (no data, sample ratio, aborted, not
approved) is not a loss. A promotion changes the incumbent and a shifted workload marks the trials: both free
what was denied. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import log

from kvtune_api.knobs import CacheConfig
from kvtune_api.names import Outcome, OutcomeReason
from kvtune_api.policy import Strategy
from kvtune_api.status import Trial
from kvtune_tuner.configs import distance, same_config

NEAR = log(1.05)
"""Two configurations are near when every knob differs by at most this much, ln (5 %, experiments.md 10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """One configuration that has lost to the incumbent, and where that was seen."""

    config: CacheConfig
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DenyList:
    """What has lost to the present incumbent."""

    entries: tuple[Denied, ...] = ()

    def reason(self, config: CacheConfig) -> str | None:
        """Say why a configuration is denied, or None."""
        return next((entry.because for entry in self.entries if near(config, entry.config)), None)

    def plus(self, more: Sequence[Denied]) -> "DenyList":
        """Deny more."""
        return DenyList(entries=(*self.entries, *more))


def near(a: CacheConfig, b: CacheConfig) -> bool:
    """Say whether two configurations are within 5 % of one another in every knob."""
    return all(apart <= NEAR for apart in distance(a, b).values())


def lost(trial: Trial) -> bool:
    """Say whether the candidate of a trial lost: rejected, rolled back, or undecided to the end."""
    match trial.outcome:
        case Outcome.REJECTED | Outcome.ROLLED_BACK:
            return True
        case Outcome.INCONCLUSIVE:
            return trial.reason is OutcomeReason.MAX_PAIRS
        case Outcome.PROMOTED | Outcome.ABORTED:
            return False


def current(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """Give the trials of the present workload, oldest first."""
    return tuple(sorted((trial for trial in trials if not trial.shifted), key=lambda trial: trial.number))


def denied(trials: Sequence[Trial], incumbent: CacheConfig) -> DenyList:
    """List what lost to this incumbent: candidates, and the incumbent that this one was promoted over."""
    entries: list[Denied] = []
    for trial in current(trials):
        if lost(trial) and same_config(trial.incumbent, incumbent):
            because = f"lost in experiment {trial.number} ({trial.outcome}, {trial.reason})"
            entries.append(Denied(config=trial.candidate, because=because))
        elif trial.outcome is Outcome.PROMOTED and same_config(trial.candidate, incumbent):
            because = f"was replaced by the incumbent in experiment {trial.number}"
            entries.append(Denied(config=trial.incumbent, because=because))
    return DenyList(entries=tuple(entries))


def losses_in_a_row(trials: Sequence[Trial], strategy: Strategy, since: datetime) -> tuple[Trial, ...]:
    """Give a proposer's losses since its last promotion and since a moment, newest first.

    Trials that ended without a verdict neither count nor end the row.
    """
    row: list[Trial] = []
    for trial in reversed(current(trials)):
        if trial.strategy != strategy or trial.ended_at <= since:
            continue
        if trial.outcome is Outcome.PROMOTED:
            break
        if lost(trial):
            row.append(trial)
    return tuple(row)
