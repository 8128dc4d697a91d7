"""Write flat rows as a Parquet file, one column for each field."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
from pyarrow import parquet as pq

from kvtune_lab.whole_files import replacing


def write_rows(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows of the same columns, at least one; raises OSError."""
    write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table, whole or not at all: not by its name, which pyarrow removes where it fails."""
    packed = pa.BufferOutputStream()
    pq.write_table(table, packed)
    with replacing(path) as file:
        file.write(packed.getvalue())
