"""One request of a workload, whoever makes it: generator or trace."""

from typing import NamedTuple


class Request(NamedTuple):
    """What a replay needs of one request (a tuple, because millions are made).

    `arrival_s` counts from the workload's start and never goes back. `blocks` are prefix-chained ids, head
    first, of full blocks or with a partial last one (see the source); `root` is the session's first block
    after what all share.
    """

    arrival_s: float
    session: int
    root: int
    blocks: list[int]
    prompt_tokens: int
    output_tokens: int
