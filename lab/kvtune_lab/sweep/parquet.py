"""Write the rows of a sweep as a Parquet file, one column for each field."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types

from kvtune_lab.capacity.parquet import write_table

_FLOATS = ("ttl_seconds", "eviction_ratio")
_RATES = "_rate"


def write_parquet(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write flat records, as `kvtune_lab.simulation.row` gives them; raises OSError."""
    schema = pa.schema([(name, _kind(name)) for name in rows[0]])
    write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=schema), path)


def _kind(name: str) -> pa.DataType:
    """The type of a column, which does not depend on what happens to be null."""
    if name in ("policy", "order"):
        return pa.string()
    return pa.float64() if name in _FLOATS or _RATES in name else pa.int64()
