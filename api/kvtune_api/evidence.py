"""What an experiment shows to people while it runs: its tests in short, its conditions, what tripped."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from kvtune_api.codec import frozen
from kvtune_api.names import ExperimentConditionType
from kvtune_api.status import Truth


@frozen
class Evidence:
    """The tests in short, for people."""

    deltas: int = 0
    """Comparisons of pairs so far."""

    effect: float | None = None
    """Mean Delta of the objective: candidate minus incumbent."""

    sd: float | None = None
    """Sd of a Delta."""

    interval: tuple[float, float] | None = None
    """Confidence interval of the effect, valid at any time."""

    e_value: float | None = None
    """Evidence that the candidate is better."""

    threshold: float | None = None
    """The e-value that promotes."""

    p_value: float | None = None
    """Anytime-valid p-value: 1 / e-value, at most 1."""

    candidate: dict[str, float] = Field(default_factory=dict)
    """Means of the candidate arm: objective, hitRate, ttft; with profiles stall and its parts, as shares."""

    control: dict[str, float] = Field(default_factory=dict)
    """The same of the control arm."""

    guardrails: dict[str, float] = Field(default_factory=dict)
    """Mean Delta of each guardrail."""

    sample_ratio: str = "NotAvailable"
    """p-value bound of the sample-ratio gate, or NotAvailable."""


@frozen
class Breach:
    """What the breaker saw when it tripped."""

    at: float
    """Engine seconds at which it tripped."""

    check: str
    """Which check tripped."""

    message: Annotated[str, Field(max_length=1024)]
    """What it saw, with numbers."""


@frozen
class ExperimentCondition:
    """One aspect of an experiment's state, as Kubernetes writes conditions."""

    type: ExperimentConditionType
    """What it is about."""

    status: Truth
    """Whether it holds."""

    reason: Annotated[str, Field(max_length=64)]
    """A phase, an outcome's reason, or Undecided."""

    message: Annotated[str, Field(max_length=1024)]
    """What is so, with numbers."""

    last_transition_time: datetime
    """Since when the status is what it is."""

    observed_generation: int = 0
    """The generation of the experiment that it speaks of."""


@frozen
class ExperimentShown:
    """The tests as `kubectl get` shows them, as of the last block."""

    effect: Annotated[str, Field(max_length=64)] = ""
    """Mean Delta of the objective with its interval in points, such as `+2.1 [+1.0, +3.2]`."""

    e_value: Annotated[str, Field(max_length=64)] = ""
    """Superiority's e-value against what it needs, such as `34.1/20`."""

    deltas: Annotated[str, Field(max_length=64)] = ""
    """Deltas judged of the most that there may be, such as `12/24`."""
