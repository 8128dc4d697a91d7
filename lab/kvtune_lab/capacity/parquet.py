"""Write flat rows as a Parquet file, one column for each field."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
from pyarrow import parquet as pq


def write_rows(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows of the same columns, at least one; raises OSError."""
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)
