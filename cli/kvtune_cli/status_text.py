"""A status as tables: as wide as the terminal, or unwrapped lines for a pipe or a file."""

import io
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvtune_api.evidence import Evidence
from kvtune_api.experiment import ExperimentStatus, KVCacheExperiment
from kvtune_api.knobs import CacheConfig, point, written
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import PolicyStatus, Sli, Trial, Truth
from kvtune_operator.eventlog import KeptEvent

TRIALS_SHOWN = 10
PIPE_WIDTH = 10_000
"""Columns outside a terminal: nothing is wrapped, and what pads a line is cut off again."""


def print_status(
    policies: Sequence[KVCachePolicy],
    running: Mapping[str, KVCacheExperiment | None],
    events: Sequence[KeptEvent],
    who: str | None,
    left: Mapping[str, float],
) -> None:
    """Print everything to stdout; `left` has the Unix seconds of the last state of what nobody serves."""
    if sys.stdout.isatty():
        _print(Console(), policies, running, events, who, left)
        return
    unwrapped = io.StringIO()
    _print(Console(file=unwrapped, width=PIPE_WIDTH), policies, running, events, who, left)
    for line in unwrapped.getvalue().splitlines():
        sys.stdout.write(line.rstrip() + "\n")


def _print(
    console: Console,
    policies: Sequence[KVCachePolicy],
    running: Mapping[str, KVCacheExperiment | None],
    events: Sequence[KeptEvent],
    who: str | None,
    left: Mapping[str, float],
) -> None:
    control = f"control plane: {who}" if who else "no control plane is running: this is the last state"
    console.print(Text(f"{control} (times are of the policy's clock)"))
    for policy in policies:
        if (since := left.get(policy.metadata.name)) is not None:
            console.print(Text(_not_served(policy, since), style="bold"))
            continue
        _print_policy(console, policy, running.get(policy.metadata.name))
    for event in events:
        times = f" (x{event.count})" if event.count > 1 else ""
        console.print(Text(f"{event.last:%H:%M:%S} {event.type} {event.reason}: {event.message}{times}"))


def _not_served(policy: KVCachePolicy, since: float) -> str:
    """One line about a policy of this directory whose agents nobody looks at."""
    when = f"{datetime.fromtimestamp(since, tz=UTC):%Y-%m-%d %H:%M:%S}"
    return f"policy {policy.metadata.name}: not served since {when} UTC by this machine's clock"


def _print_policy(console: Console, policy: KVCachePolicy, experiment: KVCacheExperiment | None) -> None:
    status = policy.status or PolicyStatus()
    console.print(Text(f"policy {policy.metadata.name}: {status.phase}", style="bold"))
    for line in _lines(policy, status):
        console.print(Text(f"  {line}"))
    if status.slis:
        console.print(_slis(status.slis))
    if experiment is not None:
        for line in _experiment(experiment):
            console.print(Text(f"  {line}"))
    if status.trials:
        console.print(_trials(status.trials[-TRIALS_SHOWN:]))


def _lines(policy: KVCachePolicy, status: PolicyStatus) -> Iterator[str]:
    if status.waiting_for:
        yield f"waits for: {status.waiting_for}"
    yield f"mode {policy.spec.mode}, agents ready {status.agents_ready} of {status.agents}"
    if status.incumbent is not None:
        yield f"incumbent: {config_text(status.incumbent)}"
    if status.would_try is not None:
        gain = "" if status.would_gain is None else f" (predicted gain {status.would_gain:+.3f})"
        yield f"would try: {config_text(status.would_try)}{gain}"
    for condition in status.conditions:
        if condition.status is not Truth.TRUE and condition.message:
            yield f"{condition.type}={condition.status} ({condition.reason}): {condition.message}"


def _slis(slis: Sequence[Sli]) -> Table:
    table = Table("SLI", "value", "target", "met", "note", box=SIMPLE_HEAD)
    for sli in slis:
        value = number(sli.value) if sli.value is not None else (sli.reason or "missing")
        table.add_row(sli.name, Text(value), number(sli.target), _met(sli), Text(sli.message or ""))
    return table


def _met(sli: Sli) -> str:
    """Whether the target is met; a dash where the policy sets none."""
    return "-" if sli.target is None else str(sli.met)


def _experiment(experiment: KVCacheExperiment) -> Iterator[str]:
    spec, status, evidence = experiment.spec, experiment.status, experiment.status.evidence
    settings = spec.policy_spec.experiment
    yield f"experiment {experiment.metadata.name} ({spec.strategy}): {config_text(spec.candidate)}"
    if spec.why:
        yield f"why: {spec.why}"
    yield f"window {status.window:g} s after washout {status.washout:g} s, at most {spec.max_pairs} Deltas"
    yield f"{_end(status)}, power {number(status.power)}"
    yield _evidence(evidence, threshold=1.0 / settings.alpha)
    if evidence.deltas < settings.min_pairs:
        yield f"waits for minPairs: nothing is promoted before {settings.min_pairs} Deltas"
    for name in sorted(evidence.candidate):
        candidate, control = evidence.candidate[name], evidence.control.get(name)
        yield f"{name}: candidate {number(candidate)}, control {number(control)}"


def _end(status: ExperimentStatus) -> str:
    """When the experiment ends, by the estimate of its start; one that is known to be wrong is said to be."""
    end, known = status.estimated_end, status.last_data_at
    if status.epoch is not None:
        known = max(known, status.epoch.measure_to)
    if end is not None and end < known:
        return f"takes longer than estimated (until {_clock_time(end)})"
    return f"estimated end {_clock_time(end)}"


def _clock_time(seconds: float | None) -> str:
    return "-" if seconds is None else f"{datetime.fromtimestamp(seconds, tz=UTC):%H:%M:%S}"


def _evidence(evidence: Evidence, *, threshold: float) -> str:
    text = f"evidence after {evidence.deltas} Deltas: effect {signed(evidence.effect)}"
    if evidence.interval is not None:
        text += f" [{signed(evidence.interval[0])}, {signed(evidence.interval[1])}]"
    return f"{text}, e-value {number(evidence.e_value)} of {number(threshold)}"


def _trials(trials: Sequence[Trial]) -> Table:
    table = Table("#", "candidate", "by", "Deltas", "effect", "predicted", box=SIMPLE_HEAD)
    table.add_column("outcome", overflow="fold")
    for trial in trials:
        table.add_row(
            str(trial.number),
            short_text(trial.candidate),
            trial.strategy,
            str(trial.deltas),
            signed(trial.effect),
            signed(trial.predicted),
            f"{trial.outcome}({trial.reason})",
        )
    return table


def config_text(config: CacheConfig) -> str:
    """A configuration on one line: `cacheTTL 30s, evictionRatio 0.3, tiers.hostMemory 57Gi`."""
    return ", ".join(f"{knob} {written(knob, value)}" for knob, value in point(config).items())


def short_text(config: CacheConfig) -> str:
    """The values of a configuration alone: `30s 0.3 57Gi`."""
    return " ".join(written(knob, value) for knob, value in point(config).items())


def number(value: float | None) -> str:
    """A number with three digits; a dash where there is none."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.3g}"


def signed(value: float | None) -> str:
    """A difference with its sign; a dash where there is none."""
    return "-" if value is None or not math.isfinite(value) else f"{value:+.3f}"
