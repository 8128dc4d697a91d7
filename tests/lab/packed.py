"""Requests of the generator, or of a test, as readers give them."""

from array import array
from collections.abc import Iterable

from kvtune_cache.requests import Requests
from kvtune_lab.readers.loaded import as_requests
from kvtune_lab.traffic import Request


def packed(requests: Iterable[Request], *, block_tokens: int) -> Requests:
    """Number the blocks of all requests as they come; the last of each holds the tokens that are left."""
    numbers: dict[int, int] = {}
    starts, blocks, tokens = array("q", [0]), array("i"), array("i")
    times, outputs, hints = array("d"), array("i"), array("d")
    for request in requests:
        blocks.extend(numbers.setdefault(block, len(numbers)) for block in request.blocks)
        full = len(request.blocks) - 1
        tokens.extend([block_tokens] * full)
        tokens.append(request.prompt_tokens - block_tokens * full)
        starts.append(len(blocks))
        times.append(request.arrival_s)
        outputs.append(request.output_tokens)
        hints.append(request.hint.returns_in_seconds if request.hint is not None else 0.0)
    return as_requests(starts, blocks, tokens, times, outputs, [0] * len(times), hints)
