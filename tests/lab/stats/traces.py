"""Small traces for the tests of statistics."""

from collections.abc import Sequence
from pathlib import Path

from kvtune_lab.readers.loaded import Format, Loaded
from kvtune_lab.readers.packing import Packing, Row
from kvtune_lab.readers.source import Source


def loaded(*requests: tuple[float, Sequence[int]], **other: object) -> Loaded:
    """Requests at a time with the names of their blocks, each of 16 tokens; `other` lists a field of each."""
    packing = Packing(Source(Path("trace")), time_field="t", blocks_field="blocks")
    for number, (time_s, blocks) in enumerate(requests):
        fields = {name: values[number] for name, values in other.items()}  # type: ignore[index]  # lists
        packing.add(number + 1, Row(time_s=time_s, blocks=blocks, tokens=[16] * len(blocks), **fields))
    return packing.loaded(Format.RECORDING, block_tokens=16)
