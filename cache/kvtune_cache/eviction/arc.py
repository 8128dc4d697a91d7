"""ARC: recent and frequent blocks share the capacity by a target that misses of lately evicted blocks move.

Megiddo and Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003, figure 4: T1, T2, B1, B2
are the lists RECENT, FREQUENT, GHOST_RECENT, GHOST_FREQUENT. The target p is kept as a whole number of 2^-20
blocks, so that it rounds alike wherever it is worked out.
"""

from kvtune_cache.blocks import (
    FREQUENT,
    GHOST_FREQUENT,
    GHOST_RECENT,
    NO_BLOCK,
    NOWHERE,
    RECENT,
    SIZES,
    TARGET,
    BlockTable,
    let_go,
    link,
    move,
    note_gone,
    oldest_free,
    renew,
    resident,
    take_out,
)

TARGET_PARTS = 1 << 20


def arc_hit(table: BlockTable, x: int) -> None:
    """Make x the newest of the frequent ones."""
    if table.where[x] == FREQUENT + 1:
        renew(table, x, FREQUENT)
    else:
        move(table, x, RECENT, FREQUENT)


def arc_miss(table: BlockTable, x: int, capacity: int) -> None:
    """Take x in, as frequent where it is remembered; leave it out where all others are pinned."""
    place = table.where[x]
    if place == NOWHERE:
        _new(table, x, capacity)
        return
    _aim(table, place - 1, capacity)
    if _room(table, capacity, place - 1 == GHOST_FREQUENT):
        move(table, x, place - 1, FREQUENT)


def arc_evict(table: BlockTable) -> int:
    """Let one block go by the target, and remember it; NO_BLOCK when all are pinned."""
    return _replace(table, False)


def arc_trim(table: BlockTable, capacity: int) -> None:
    """Forget what a smaller capacity does not remember: recent ones and their ghosts fit it."""
    state = table.state
    state[TARGET] = min(state[TARGET], TARGET_PARTS * capacity)
    while state[SIZES + GHOST_RECENT] > max(0, capacity - state[SIZES + RECENT]):
        _forget(table, GHOST_RECENT)
    others = resident(table) + state[SIZES + GHOST_RECENT]
    while state[SIZES + GHOST_FREQUENT] > max(0, 2 * capacity - others):
        _forget(table, GHOST_FREQUENT)


def _new(table: BlockTable, x: int, capacity: int) -> None:
    """Take in a block that nobody remembers (the paper's case IV)."""
    state = table.state
    recent, ghosts = state[SIZES + RECENT], state[SIZES + GHOST_RECENT]
    all_lists = recent + ghosts + state[SIZES + FREQUENT] + state[SIZES + GHOST_FREQUENT]
    if recent + ghosts == capacity:
        if recent == capacity:
            oldest = oldest_free(table, RECENT)
            if oldest == NO_BLOCK:
                return
            let_go(table, oldest, RECENT)
            link(table, x, RECENT)
            return
        _forget(table, GHOST_RECENT)
    elif all_lists >= 2 * capacity:
        _forget(table, GHOST_FREQUENT)
    if _room(table, capacity, False):
        link(table, x, RECENT)


def _aim(table: BlockTable, ghost: int, capacity: int) -> None:
    """Move the target towards the list whose memory was asked for (cases II and III)."""
    state = table.state
    recent, frequent = state[SIZES + GHOST_RECENT], state[SIZES + GHOST_FREQUENT]
    if ghost == GHOST_RECENT:
        step = max(TARGET_PARTS, TARGET_PARTS * frequent // recent)
        state[TARGET] = min(TARGET_PARTS * capacity, state[TARGET] + step)
    else:
        step = max(TARGET_PARTS, TARGET_PARTS * recent // frequent)
        state[TARGET] = max(0, state[TARGET] - step)


def _room(table: BlockTable, capacity: int, frequent: bool) -> bool:
    """Make room for one block where there is none."""
    return resident(table) < capacity or _replace(table, frequent) != NO_BLOCK


def _replace(table: BlockTable, frequent: bool) -> int:
    """Let go of the oldest of one list, or of the other where all of it is pinned (the paper's REPLACE)."""
    recent = TARGET_PARTS * table.state[SIZES + RECENT]
    target = table.state[TARGET]
    whole = target // TARGET_PARTS * TARGET_PARTS
    if recent >= TARGET_PARTS and (recent > target or (frequent and recent == whole)):
        x = _demote(table, RECENT, GHOST_RECENT)
        return x if x != NO_BLOCK else _demote(table, FREQUENT, GHOST_FREQUENT)
    x = _demote(table, FREQUENT, GHOST_FREQUENT)
    return x if x != NO_BLOCK else _demote(table, RECENT, GHOST_RECENT)


def _demote(table: BlockTable, k: int, ghost: int) -> int:
    """Let the oldest block of a list go that is not pinned, and remember it."""
    x = oldest_free(table, k)
    if x != NO_BLOCK:
        move(table, x, k, ghost)
        note_gone(table, x)
    return x


def _forget(table: BlockTable, ghost: int) -> None:
    """Forget the oldest memory of a list, where there is one."""
    if table.state[SIZES + ghost] > 0:
        take_out(table, table.before[len(table.where) + ghost], ghost)
