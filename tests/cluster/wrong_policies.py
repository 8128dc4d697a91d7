"""Policies for the API server: the ten likeliest mistakes, and specs made at random from the CRD's schema."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

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
    "0s", "1s", "2.9s", "3s", "90s", "5m", "1h30m", "320ms", "0.5ms", "24h", "1000000000s", "1000000001s", "277777h",
    "277778h", "999999h999999h", "1d", "90", "-5s", "1e3s", "0.0000001s", "1.5.5s", ".5s", "5.s", "1h 30m", "٣s", "",
)  # fmt: skip
QUANTITIES = (
    "0", "1", "8Gi", "512Mi", "1e9", "1E9", "1.5Ki", "500m", "2G", "1Ei", "2Ei", "1e99", "8GB", "-1Gi", "1e-3",
    "0.0000001", "1k", "1K", "5u", ".5", "5.", "+5", "1e+9", "99999999999999999999999999999999",
)  # fmt: skip
TEXTS = (
    "", "x", "a b", "app", "app=x", "-app", "vllm-chat", "example.com/app", "Ü", "a" * 64, "a" * 254,
    "http://prometheus:9090", "http://[::1]:9090/a", "https://user@host", "ftp://x", "http://x?y", "http://x\u00a0y",
    "sum by (pod) (x{$agents})", "x{$agent}", "x{pod=~\"a$\"}", "${agents}", "Auto", "Scrape", "auto",
)  # fmt: skip
NUMBERS = (-1, 0, 1, 2, 5, 8, 8.0, 8.5, 0.05, 0.5, 0.95, 0.999, 1.5, 24, 64, 65, 1000, 10_001, 1e9, 1e300)
ODDITIES = (None, True, False, [], {}, [None], ["x"], {"x": "y"}, {"x": 1}, {"x": None}, 250)
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
