"""LRU of a Mooncake trace by libcachesim's Python plugin, block by block: `FILE CAPACITY`.

Run by lab_speed.py as a process of its own, from the file to the hit rate, as a person would write it.
"""

import gzip
import json
import sys
from collections import OrderedDict

import libcachesim

BLOCK_BYTES = 1


def main(path: str, capacity: int) -> None:
    """Print the share of blocks that were hit."""
    cache = libcachesim.PluginCache(
        cache_size=capacity * BLOCK_BYTES,
        cache_init_hook=lambda _params: OrderedDict(),
        cache_hit_hook=lambda order, request: order.move_to_end(request.obj_id),
        cache_miss_hook=lambda order, request: order.__setitem__(request.obj_id, None),
        cache_eviction_hook=lambda order, _request: order.popitem(last=False)[0],
        cache_remove_hook=lambda order, block: order.pop(block, None),
        cache_free_hook=lambda order: order.clear(),
    )
    hits = blocks = 0
    request = libcachesim.Request()
    request.obj_size = BLOCK_BYTES
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            for block in json.loads(line)["hash_ids"]:
                request.obj_id = block
                hits += cache.get(request)
                blocks += 1
    sys.stdout.write(f"{hits / blocks:.6f}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
