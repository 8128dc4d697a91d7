"""The figures by which agents are matched into pairs, from counters at grid times. Called by replay.py."""

from kvtune_agent.engines.grid import GridRows
from kvtune_agent.engines.rows import DEVICE_HITS, HOST_HITS, PROMPT, REQUESTS
from kvtune_api.wire import Load

LOAD_SECONDS = 300


def load_of(grid: GridRows) -> Load:
    """Rates over the last 5 minutes before the newest grid time, or what there is of them."""
    newest = grid.newest_at
    first = grid.row_at_or_after(newest - LOAD_SECONDS) if newest is not None else None
    last = grid.row(newest) if newest is not None else None
    if newest is None or first is None or last is None or first[0] == newest:
        return Load(span_seconds=0.0)
    span = newest - first[0]
    prompt = last[PROMPT] - first[1][PROMPT]
    hits = sum(last[column] - first[1][column] for column in (DEVICE_HITS, HOST_HITS))
    return Load(
        span_seconds=span,
        request_rate=(last[REQUESTS] - first[1][REQUESTS]) / span,
        hit_rate=hits / prompt if prompt > 0 else None,
    )
