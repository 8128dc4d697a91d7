"""Hypothesis strategies for prefix-chained requests and host-tier settings."""

from hypothesis import strategies as st

from kvtune_cache.tiers import CacheSettings

settings_of_a_host = st.builds(
    CacheSettings,
    ttl_seconds=st.sampled_from([0.5, 3.0, 10.0, float("inf")]),
    eviction_ratio=st.sampled_from([0.01, 0.2, 0.3, 0.5, 1.0]),
    host_blocks=st.integers(0, 24),
)


@st.composite
def chain(draw: st.DrawFn) -> list[int]:
    """A prefix of one of a few sessions, whose first block is shared by all."""
    session = draw(st.integers(0, 5))
    length = draw(st.integers(0, 9))
    return [0, *(100 * (session + 1) + depth for depth in range(length))]


requests = st.tuples(st.sampled_from([0.0, 0.25, 1.0, 4.0]), chain())
changes = st.tuples(st.sampled_from([0.0, 1.0, 5.0]), settings_of_a_host)
