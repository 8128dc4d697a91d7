"""Policies for the API server: the ten likeliest mistakes, and specs made at random from the CRD's schema."""

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from kvtune_api.rules import RULES_KEY

Document = dict[str, Any]
Path = tuple[str, ...]


def document(**spec: Any) -> Document:
    """A policy of few lines, with parts of its spec replaced."""
    plain: dict[str, Any] = {
        "targets": {"ttft": {"limit": "250ms"}},
        "knobs": {"cacheTTL": {"min": "30s", "max": "10m"}},
    }
    return {
        "apiVersion": "kvtune.dev/v1alpha1",
        "kind": "KVCachePolicy",
        "metadata": {"name": "chat"},
        "spec": plain | spec,
    }


def named(name: str) -> Document:
    """The same policy under another name."""
    return {**document(), "metadata": {"name": name}}


def knob(**fields: Any) -> Document:
    """A policy that tunes the TTL within a range of its own."""
    return document(knobs={"cacheTTL": {"min": "30s", "max": "10m", **fields}})


# At random

DURATIONS = (
    "0s", "1s", "2.9s", "3s", "90s", "5m", "1h30m", "320ms", "0.5ms", "24h", "1000000000s", "1000000001s",
    "277777h", "277778h", "999999h999999h", "1d", "90", "-5s", "1e3s", "0.0000001s", "1.5.5s", ".5s", "5.s",
    "1h 30m", "٣s", "",
)  # fmt: skip
QUANTITIES = (
    "0", "1", "8Gi", "512Mi", "1e9", "1E9", "1.5Ki", "500m", "2G", "1Ei", "2Ei", "1e99", "8GB", "-1Gi",
    "1e-3", "0.0000001", "1k", "1K", "5u", ".5", "5.", "+5", "1e+9", "99999999999999999999999999999999",
)  # fmt: skip
TEXTS = (
    "", "x", "a b", "app", "app=x", "-app", "vllm-chat", "example.com/app", "Ü", "a" * 64, "a" * 254,
    "http://prometheus:9090", "http://[::1]:9090/a", "https://user@host", "ftp://x", "http://x?y", "http://x\u00a0y",
    "sum by (pod) (x{$agents})", "x{$agent}", "x{pod=~\"a$\"}", "${agents}", "Auto", "Scrape", "auto",
)  # fmt: skip
NUMBERS = (-1, 0, 1, 2, 5, 8, 8.0, 8.5, 0.05, 0.5, 0.95, 0.999, 1.5, 24, 64, 65, 1000, 10_001, 1e9, 1e300)
ODDITIES: tuple[Any, ...] = (None, True, False, [], {}, [None], ["x"], {"x": "y"}, {"x": 1}, {"x": None}, 250)
ANY = (*DURATIONS, *QUANTITIES, *TEXTS, *NUMBERS, *ODDITIES)


def fields(schema: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield every field of a structural schema, outer ones first."""
    for name, field in schema.get("properties", {}).items():
        yield (*path, name), field
        yield from fields(field, (*path, name))


def put(spec: Any, path: Path, value: Any) -> None:
    """Write a value at a path, making the objects on the way; leave it where something else is in the way."""
    *parents, last = path
    for name in parents:
        if not isinstance(spec, dict):
            return
        spec = spec.setdefault(name, {})
    if isinstance(spec, dict):
        spec[last] = value


def drop(spec: Any, path: Path) -> None:
    """Take the field at a path away, where there is one."""
    *parents, last = path
    for name in parents:
        spec = spec.get(name) if isinstance(spec, dict) else None
    if isinstance(spec, dict):
        spec.pop(last, None)


def likely(field: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values of the field's own type, many of them within its limits."""
    match field["type"]:
        case "boolean":
            return st.booleans()
        case "integer":
            return st.sampled_from(NUMBERS)
        case "number":
            low, high = field.get("minimum", 0), field.get("maximum", 2)
            return st.sampled_from(NUMBERS) | st.floats(low, high) | st.sampled_from((low, high))
        case "string":
            known = field.get("enum") or (*DURATIONS, *QUANTITIES, *TEXTS)
            return st.sampled_from(known)
        case "array":
            return st.lists(likely(field["items"]), max_size=2)
        case "object" if "additionalProperties" in field:
            return st.dictionaries(
                st.sampled_from(TEXTS) | st.sampled_from(("app", "pod", "example.com/app")),
                likely(field["additionalProperties"]),
                max_size=2,
            )
        case _:
            return st.sampled_from(ODDITIES)


@st.composite
def documents(draw: st.DrawFn, schema: Mapping[str, Any]) -> Document:
    """Policies that an API server may or may not accept: a right one, with a few fields changed."""
    made = copy.deepcopy(document())
    every = list(fields(schema))
    for _ in range(draw(st.integers(0, 4))):
        path, field = draw(st.sampled_from(every))
        put(made["spec"], path, draw(likely(field) if draw(st.integers(0, 3)) else st.sampled_from(ANY)))
    if not draw(st.integers(0, 5)):
        drop(made["spec"], draw(st.sampled_from(every))[0])
    if not draw(st.integers(0, 9)):
        put(made["spec"], (*draw(st.sampled_from(every))[0][:-1], "misspelt"), 1)
    return made


def durations() -> st.SearchStrategy[str]:
    """Texts that are durations, nearly."""
    return st.sampled_from(DURATIONS) | st.from_regex(
        r"\A(0{0,3}[0-9]{1,12}(\.[0-9]{0,7})?(ms|s|m|h|us|d)?){1,3}\Z", fullmatch=True
    )


def quantities() -> st.SearchStrategy[str]:
    """Texts that are quantities, nearly."""
    return st.sampled_from(QUANTITIES) | st.from_regex(
        r"\A[+-]?[0-9]{0,20}(\.[0-9]{0,8})?(m|n|u|k|K|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{1,3})?\Z",
        fullmatch=True,
    )


# The ten likeliest mistakes


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One thing wrong in an otherwise right policy."""

    name: str
    path: str
    value: Any
    expected: str
    """What the refusal must say at least."""

    @property
    def written(self) -> str:
        """The mistake as documentation shows it."""
        return f"{self.path}: {json.dumps(self.value)}"

    def policy(self) -> Document:
        """The policy with the mistake."""
        made = copy.deepcopy(document())
        put(made, tuple(self.path.split(".")), self.value)
        return made


TEN = (
    Mistake(
        name="a duration without a unit",
        path="spec.targets.ttft.limit",
        value=250,
        expected='must be of type string: "integer"',
    ),
    Mistake(
        name="a duration in days",
        path="spec.knobs.cacheTTL.max",
        value="1d",
        expected="'1d' is not a duration such as '90s', '5m' or '320ms'",
    ),
    Mistake(
        name="a size that Kubernetes does not know",
        path="spec.knobs.tiers",
        value={"hostMemory": {"min": "8GB", "max": "64Gi"}},
        expected="'8GB' is not a quantity such as '8Gi' or '512Mi'",
    ),
    Mistake(
        name="min above max",
        path="spec.knobs.cacheTTL.min",
        value="20m",
        expected="min 20m is greater than max 10m",
    ),
    Mistake(
        name="a start outside the bounds",
        path="spec.knobs.cacheTTL.start",
        value="5s",
        expected="start 5s is outside 30s to 10m",
    ),
    Mistake(
        name="percent in place of a share",
        path="spec.targets.hitRate",
        value={"min": 80},
        expected="should be less than 1",
    ),
    Mistake(
        name="a word that is not one of the choices",
        path="spec.mode",
        value="auto",
        expected='supported values: "Observe", "Recommend", "Auto", "AATest"',
    ),
    Mistake(
        name="a misspelt field",
        path="spec.experimnt",
        value={"alpha": 0.1},
        expected='unknown field "spec.experimnt"',
    ),
    Mistake(
        name="no target",
        path="spec.targets",
        value={},
        expected="at least one target is needed: ttft or hitRate",
    ),
    Mistake(
        name="addresses in a cluster",
        path="spec.selector",
        value={"addresses": ["http://10.0.0.7:9000"]},
        expected="addresses: 1 set: not in a cluster, where agents are found by labels",
    ),
)


# Every limit


def full() -> Document:
    """A right policy in which every object is written, to break one limit at a time."""
    return document(
        targets={"ttft": {"limit": "250ms"}, "hitRate": {"min": 0.5}, "stall": {"max": 0.1}},
        knobs={
            "cacheTTL": {"min": "30s", "max": "10m"},
            "evictionRatio": {"min": 0.1, "max": 0.3},
            "tiers": {"hostMemory": {"min": "8Gi", "max": "64Gi"}},
        },
        experiment={"window": {"min": "2m", "max": "5m"}, "washout": {"min": "20s", "max": "1m"}},
        metrics={"prometheus": {"secret": {"name": "a"}}, "pyroscope": {"secret": {"name": "a"}}},
    )


def violations(field: Mapping[str, Any]) -> Iterator[Any]:
    """Yield values that break each limit of a field, one at a time, and its type."""
    yield 7 if field["type"] in ("string", "object", "boolean", "array") else "seven"
    if "minimum" in field:
        yield field["minimum"] if field.get("exclusiveMinimum") else field["minimum"] - 1
        if 0 < field["minimum"] < 1:
            yield 0
    if "maximum" in field:
        yield field["maximum"] if field.get("exclusiveMaximum") else field["maximum"] + 1
    if "enum" in field:
        yield "Nonsense"
    if "minLength" in field:
        yield "a" * (field["minLength"] - 1)
    if "maxLength" in field:
        yield "a" * (field["maxLength"] + 1)
    if "maxItems" in field:
        yield ["http://a"] * (field["maxItems"] + 1)
    if "maxProperties" in field:
        yield {f"a{number}": "x" for number in range(field["maxProperties"] + 1)}
    words = " ".join(rule["messageExpression"] for rule in field.get(RULES_KEY, ()))
    for known, value in (
        ("is not a", "?"),
        ("largest duration", "1000000001s"),
        ("largest quantity", "2Ei"),
        ("greater than 0s", "0s"),
        ("greater than 0", "0"),
        ("only $agents is", "x{$pod}"),
    ):
        if known in words and field["type"] == "string":
            yield value
