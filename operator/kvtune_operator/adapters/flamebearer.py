"""A flamebearer, as Pyroscope answers it, and what its stacks waited for.

`GET /pyroscope/render?format=json`. Format (https://grafana.com/docs/pyroscope/latest/reference-server-
api/): `flamebearer.levels` holds for each depth of the stacks four numbers a bar: distance to the end of
the bar before, total, self, index in `names`. Pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kvtune_tuner.model import Stalls
from kvtune_tuner.sli import Missing, MissingReason

OTHER = "other"
OTHER_SHARE = 0.05
"""Pyroscope cuts small bars off into one called `other`; with more of it than this the shares say little."""


class Wait(IntEnum):
    """What a stack waits for; of nested frames the smallest counts."""

    EVICT = 0
    STORE = 1
    LOAD = 2
    NOTHING = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """Parts of function names, by what their functions do."""

    load: tuple[str, ...]
    store: tuple[str, ...]
    evict: tuple[str, ...]

    def wait(self, name: str) -> Wait:
        """What a frame of this name does."""
        for wait, parts in ((Wait.EVICT, self.evict), (Wait.STORE, self.store), (Wait.LOAD, self.load)):
            if any(part in name for part in parts):
                return wait
        return Wait.NOTHING


Ticks = Annotated[int, Field(ge=0, le=2**63)]


class _Bars(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)
    names: Annotated[tuple[str, ...], Field(max_length=1_000_000)]
    levels: Annotated[tuple[tuple[Ticks, ...], ...], Field(max_length=10_000)]


class _Meta(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)
    format: str = "single"


class _Profile(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)
    flamebearer: _Bars
    metadata: _Meta = _Meta()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bar:
    start: int
    total: int
    own: int
    name: str
    wait: Wait


def stalls(body: bytes, frames: Frames) -> Stalls | Missing:
    """Samples by what they waited for, each counted once: a sample belongs to the end of its stack."""
    try:
        profile = _Profile.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return _wrong(f"no flamebearer: {where}: {first['msg']}")
    if profile.metadata.format != "single":
        return _wrong(f"a flamebearer of format {profile.metadata.format!r}, not single")
    counts, above = [0.0] * len(Wait), list[_Bar]()
    cut = 0
    for level in profile.flamebearer.levels:
        bars = _level(level, profile.flamebearer.names, above, frames)
        if bars is None:
            return _wrong("a flamebearer whose bars do not lie in bars")
        for bar in bars:
            counts[bar.wait] += bar.own
            cut += bar.own if bar.name == OTHER and bar.wait is Wait.NOTHING else 0
        above = bars
    total = sum(counts)
    if total <= 0:
        return Missing(reason=MissingReason.NO_DATA, message="no samples")
    if cut > OTHER_SHARE * total:
        message = f"{cut / total:.0%} of the samples are of stacks that were cut off"
        return Missing(reason=MissingReason.RESOLUTION_INSUFFICIENT, message=message)
    return Stalls(load=counts[Wait.LOAD], store=counts[Wait.STORE], evict=counts[Wait.EVICT], total=total)


def _wrong(text: str) -> Missing:
    return Missing(reason=MissingReason.INCONSISTENT, message=text[:300])


def _level(
    numbers: Sequence[int], names: Sequence[str], above: Sequence[_Bar], frames: Frames
) -> list[_Bar] | None:
    """The bars of one depth under those above; None where they do not fit."""
    if len(numbers) % 4:
        return None
    found, parents, end = list[_Bar](), iter(above), 0
    parent = next(parents, None)
    for distance, total, own, index in _fours(numbers):
        start = end + distance
        end = start + total
        while parent is not None and start >= parent.start + parent.total:
            parent = next(parents, None)
        inside = parent is not None and parent.start <= start and end <= parent.start + parent.total
        if (above and not inside) or own > total or index >= len(names):
            return None
        wait = min(frames.wait(names[index]), parent.wait if parent else Wait.NOTHING)
        found.append(_Bar(start=start, total=total, own=own, name=names[index], wait=wait))
    return found


def _fours(numbers: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    for first in range(0, len(numbers), 4):
        yield numbers[first], numbers[first + 1], numbers[first + 2], numbers[first + 3]
