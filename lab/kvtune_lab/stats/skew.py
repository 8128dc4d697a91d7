"""How unevenly reuse (or requests) are spread over users: the least share of them that has most of it."""

from dataclasses import dataclass

import numpy as np

from kvtune_lab.readers.loaded import Reals, Whole

MOST_OF_REUSE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """Users are sessions, where nothing else tells users apart; shares from 0 to 1."""

    users: int
    reusing_users: int
    """Those with any reuse."""

    users_share_of_reuse: float | None
    """The least share of users that has MOST_OF_REUSE of all reused tokens; None without reuse."""

    inferred: bool
    """Whether sessions were inferred from shared prefixes."""


def reuse_by_user(users: Whole, reused_tokens: Reals) -> Reals:
    """Reused tokens of each user, the most first; requests of no known user are left out."""
    known = users >= 0
    if not known.any():
        return np.empty(0)
    _, dense = np.unique(users[known], return_inverse=True)  # a class may not have requests of every user
    totals: Reals = np.bincount(dense, reused_tokens[known]).astype(np.float64)
    return np.sort(totals)[::-1]


def skew_of(users: Whole, reused_tokens: Reals, *, inferred: bool) -> Skew:
    """Describe reuse by user; both arrays are by request."""
    totals = reuse_by_user(users, reused_tokens)
    whole = float(totals.sum())
    needed = int(np.searchsorted(np.cumsum(totals), MOST_OF_REUSE * whole)) + 1
    return Skew(
        users=len(totals),
        reusing_users=int(np.count_nonzero(totals)),
        users_share_of_reuse=needed / len(totals) if whole else None,
        inferred=inferred,
    )
