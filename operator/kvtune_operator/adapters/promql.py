"""PromQL of the questions that are asked, with every value escaped. Pure.

Formats: https://prometheus.io/docs/prometheus/latest/querying/basics/ (string literals, label matchers).
"""

from collections.abc import Mapping, Sequence

_REGEX = frozenset(r"\.+*?()|[]{}^$")


def quoted(value: str) -> str:
    """A string literal of PromQL."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def any_of(values: Sequence[str]) -> str:
    """A literal of a regular expression that matches these values and no other."""
    return quoted("|".join("".join(f"\\{c}" if c in _REGEX else c for c in value) for value in values))


def matchers(
    fixed: Mapping[str, str], pod_label: str, pods: Sequence[str], namespace: tuple[str, str] | None
) -> str:
    """The matchers of some pods: what `$agents` stands for. `namespace` is label and value."""
    parts = [f"{label}={quoted(value)}" for label, value in sorted(fixed.items())]
    if namespace is not None:
        parts.append(f"{namespace[0]}={quoted(namespace[1])}")
    return ",".join([*parts, f"{pod_label}=~{any_of(pods)}"])


def samples(names: Sequence[str], matching: str, seconds: float) -> str:
    """The raw samples of some metrics over the last `seconds`."""
    return f"{{__name__=~{any_of(names)},{matching}}}[{round(seconds * 1000)}ms]"


def expanded(query: str, matching: str) -> str:
    """A query of a user's own, for some pods."""
    return query.replace("$agents", matching)
