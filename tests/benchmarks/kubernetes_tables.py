"""The tables of the operator's figures at scale, and the values that they are made of."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.benchmarks.kubernetes_figures import milliseconds, without_lease, writes
from tests.benchmarks.kubernetes_ground import Scale
from tests.benchmarks.table import Table

TICK_SECONDS = 5.0
GOAL_FAN_OUT_SECONDS, GOAL_RSS_MIB = 2.0, 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Some time of one operator's life."""

    what: str
    seconds: float
    steps: tuple[float, ...]
    """Seconds of each."""

    slowest_policy: float
    """The largest p99 of a policy's steps, seconds."""

    calls: Counter[str]
    own_calls: Counter[str]
    processor: float
    """Seconds."""

    rss_mib: float
    most_mib: float
    troubles: Counter[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOut:
    """One edit that reaches every agent."""

    agents: int
    p99: float
    whole: float
    """Seconds from the first push that arrived to the last."""

    from_edit: float
    """Seconds from the edit to the last push."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start of an operator, seconds from the process's start."""

    leading: float
    first_step: float
    all_stepped: float


@dataclass(slots=True)
class Measured:
    """All of one scale."""

    scale: Scale
    start: Start | None = None
    spans: tuple[Span, ...] = ()
    fan_outs: tuple[FanOut, ...] = ()
    takeovers: tuple[tuple[float, float, float], ...] = ()
    """Lease, seconds from kill -9 to the next leader, and to its first step."""


def tables(done: Sequence[Measured]) -> Iterator[Table]:
    """All tables, a row or two for each scale."""
    yield _steps_table(done)
    yield _calls_table(done)
    yield _fan_out_table(done)
    yield _life_table(done)


def _steps_table(done: Sequence[Measured]) -> Table:
    rows = [
        (
            f"{found.scale.name}, {span.what}",
            f"{len(span.steps)}",
            milliseconds(span.steps, 0.5),
            milliseconds(span.steps, 0.99),
            milliseconds(span.steps, 1.0),
            f"{1000 * span.slowest_policy:.0f}",
            "yes" if max(span.steps) < TICK_SECONDS else "no",
            f"{100 * span.processor / span.seconds:.0f}",
            f"{span.rss_mib:.0f} ({span.most_mib:.0f})",
        )
        for found in done
        for span in found.spans
    ]
    return Table(
        title="Steps of all policies",
        columns=(
            "Policies x agents",
            "Steps",
            "p50, ms",
            "p99, ms",
            "Longest, ms",
            "Slowest policy's p99, ms",
            f"All below {TICK_SECONDS:g} s",
            "Processor, % of a core",
            "RSS (most), MiB",
        ),
        rows=tuple(rows),
        notes=(
            f"goals: every step below its interval of {TICK_SECONDS:g} s; RSS below {GOAL_RSS_MIB:.0f} MiB",
            "agents in one process, API server, etcd and the operator on the same cores; no controllers, "
            "no kubelets; direct scrape",
        ),
    )


def _calls_table(done: Sequence[Measured]) -> Table:
    rows = []
    for found in done:
        for span in found.spans:
            calls, own = without_lease(span.calls), without_lease(span.own_calls)
            count = max(1, len(span.steps))
            verbs: Counter[str] = Counter()
            for name, number in calls.items():
                verbs[name.split(" ")[0]] += number
            rows.append(
                (
                    f"{found.scale.name}, {span.what}",
                    f"{calls.total() / count:.2f}",
                    ", ".join(f"{verb} {number / count:.2f}" for verb, number in sorted(verbs.items())),
                    f"{own.total() / count:.2f}",
                    f"{writes(calls)}",
                    f"{span.seconds:.0f}",
                    f"{60 * (span.calls.total() - calls.total()) / span.seconds:.0f}",
                )
            )
    return Table(
        title="Calls to the API server",
        columns=(
            "Policies x agents",
            "Calls a step",
            "By verb",
            "By the operator's own count",
            "Writes in all",
            "in s",
            "Lease, calls a minute",
        ),
        rows=tuple(rows),
        notes=("as the API server's audit log has them, the lease's apart", "goal: no write at rest"),
    )


def _fan_out_table(done: Sequence[Measured]) -> Table:
    rows = [
        (
            found.scale.name,
            f"{fan.agents}",
            f"{1000 * fan.p99:.0f}",
            f"{1000 * fan.whole:.0f}",
            f"{1000 * fan.from_edit:.0f}",
        )
        for found in done
        for fan in found.fan_outs
    ]
    return Table(
        title="One edit that every agent is told of",
        columns=(
            "Policies x agents",
            "Pushes",
            "p99 after the first, ms",
            "Last after the first, ms",
            "After the edit, ms",
        ),
        rows=tuple(rows),
        notes=(
            f"goal: 1,000 agents within {GOAL_FAN_OUT_SECONDS:g} s; times of arrival at the agents",
            "an edit wakes its policy's task, which first reads all agents; many policies are edited at once",
            _missed(done),
        ),
    )


def _missed(done: Sequence[Measured]) -> str:
    """Where the goal of the fan-out was missed."""
    late = {found.scale.name for found in done for fan in found.fan_outs if fan.whole > GOAL_FAN_OUT_SECONDS}
    return f"the goal is missed at {', '.join(sorted(late))}" if late else "the goal is reached everywhere"


def _life_table(done: Sequence[Measured]) -> Table:
    rows = []
    for found in done:
        if found.start is not None:
            rows.append(
                (
                    f"{found.scale.name}, a start",
                    f"{found.start.leading:.1f}",
                    f"{found.start.first_step:.1f}",
                    f"{found.start.all_stepped:.1f}",
                )
            )
        for lease, leading, stepped in found.takeovers:
            rows.append(
                (f"{found.scale.name}, kill -9, lease {lease:g} s", f"{leading:.1f}", f"{stepped:.1f}", "-")
            )
    return Table(
        title="Start and takeover",
        columns=(
            "Policies x agents",
            "Leads after, s",
            "First step ended after, s",
            "All policies stepped after, s",
        ),
        rows=tuple(rows),
        notes=("a start: from the process's start; kill -9: from the kill, a second replica standing by",),
    )
