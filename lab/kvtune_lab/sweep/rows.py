"""Read the rows of a result file, which may be damaged: every field is checked before it is believed.

Called by results.py. Errors are ValueError with the field, its value and what it is to be.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from kvtune_lab.setups import Policy, Setup
from kvtune_lab.simulation import Evictions, Simulation, simulation_from

_SHOWN = 40
"""Characters of a wrong value in an error."""

_RATES = ("token_hit_rate", "block_hit_rate")
"""How the names of rates begin."""


def object_of(line: bytes) -> dict[str, Any]:
    """Read a line of JSON that holds an object."""
    try:
        data = json.loads(line)
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error
    except ValueError as error:
        raise ValueError("is not JSON") from error
    if not isinstance(data, dict):
        raise ValueError("is not a JSON object")
    return data


def simulation_of(line: bytes) -> Simulation:
    """Read one row."""
    data = object_of(line)
    _has(data, Simulation)
    setup, left = data["setup"], data["evictions"]
    _check_setup(setup)
    counts = [name for name in data if name not in ("setup", "evictions") and not name.startswith(_RATES)]
    _each(data, counts, _is_count, "a count")
    _each(data, [name for name in data if name.startswith(_RATES)], _is_share, "a rate from 0 to 1")
    if (left is None) != (setup["policy"] == Policy.OPT):
        raise ValueError(f"evictions: {_shown(left)} does not go with policy {setup['policy']}")
    if left is not None:
        _has(left, Evictions, "evictions.")
        _each(left, left, _is_count, "a count", "evictions.")
    return simulation_from(data)


def _check_setup(setup: object) -> None:
    _has(setup, Setup, "setup.")
    assert isinstance(setup, dict)
    _each(setup, ("capacity_blocks", "store_threshold"), _is_count, "a whole number", "setup.")
    _each(setup, ("ttl_seconds", "eviction_ratio"), _is_number_or_none, "a number or null", "setup.")
    _each(setup, ("policy", "order"), lambda value: isinstance(value, str), "a name", "setup.")


def _has(data: object, kind: type[Simulation | Setup | Evictions], where: str = "") -> None:
    """Refuse what has not the fields of a kind, and them alone."""
    name = where.rstrip(".") or "row"
    if not isinstance(data, Mapping):
        raise ValueError(f"{name}: {_shown(data)} is not an object")
    wanted = {field.name for field in fields(kind)}
    if data.keys() != wanted:
        lacks, more = sorted(wanted - data.keys()), sorted(data.keys() - wanted)
        raise ValueError(f"{where}{(lacks or more)[0]}: {'is missing' if lacks else 'is unknown'}")


def _each(
    data: Mapping[str, Any], names: Iterable[str], fits: Callable[[Any], bool], what: str, where: str = ""
) -> None:
    for name in names:
        if not fits(data[name]):
            raise ValueError(f"{where}{name}: {_shown(data[name])} is not {what}")


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_share(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1  # type: ignore[operator]  # not for NaN


def _is_number_or_none(value: object) -> bool:
    return value is None or type(value) in (int, float)
