"""What a user may try: refusals name the knob, the value and the limit that it breaks."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kvtune_api.codec import parse
from kvtune_api.knobs import CacheConfig, EvictionPolicy, Knob, config, point
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import PolicyStatus
from kvtune_tuner.box import step_box
from kvtune_tuner.space import space_of
from kvtune_tuner.trying import asked_in_vain, out_of_reach
from tests.fakes.samples import cache_config as numbers_alone
from tests.fakes.samples import policy

CHAT = parse(
    KVCachePolicy, yaml.safe_load((Path(__file__).parents[2] / "examples" / "chat.yaml").read_text())
)


def cache_config(
    ttl: float = 30,
    ratio: float = 0.3,
    host_gib: float = 57,
    eviction: EvictionPolicy = EvictionPolicy.FIFO,
) -> CacheConfig:
    """A configuration with every knob of the example."""
    return replace(
        numbers_alone(ttl=ttl, ratio=ratio, host_gib=host_gib), eviction_policy=eviction, store_threshold=1
    )


START = cache_config()
SPACE = space_of(CHAT.spec, frozenset(Knob))

REFUSALS = {
    "a step up": (
        cache_config(host_gib=900),
        "tiers.hostMemory: 900Gi is above the largest step x4 from 57Gi (at most 228Gi)",
    ),
    "a step down": (
        cache_config(ratio=0.06),
        "evictionRatio: 0.06 is below the largest step x4 from 0.3 (at least 0.075)",
    ),
    "above the bounds": (cache_config(host_gib=1000), "tiers.hostMemory: 1000Gi is outside 14Gi to 912Gi"),
    "below the bounds": (cache_config(ttl=5), "cacheTTL: 5s is outside 30s to 300s"),
    "two knobs": (
        cache_config(ttl=250, host_gib=10),
        "cacheTTL: 250s is above the largest step x4 from 30s (at most 120s);"
        " tiers.hostMemory: 10Gi is outside 14Gi to 912Gi",
    ),
    "a policy that is no choice": (
        cache_config(eviction=EvictionPolicy.SIEVE),
        "evictionPolicy: SIEVE is not among FIFO, ReuseAware, LRU, ARC, S3FIFO",
    ),
    "nothing new": (START, "this is what the incumbent is"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_names_the_knob_the_value_and_the_limit(case: str) -> None:
    wanted, why = REFUSALS[case]

    assert out_of_reach(SPACE, START, wanted) == why


def test_what_is_within_bounds_and_steps_is_in_reach() -> None:
    assert out_of_reach(SPACE, START, cache_config(ttl=120, host_gib=228, ratio=0.075)) is None


def test_a_knob_that_the_policy_does_not_tune_is_named() -> None:
    space = space_of(policy().spec, frozenset(Knob))

    why = out_of_reach(space, START, cache_config(host_gib=96))

    assert why == "tiers.hostMemory: is not among the knobs of the policy"


def test_a_knob_that_an_agent_cannot_change_live_is_named() -> None:
    space = space_of(CHAT.spec, frozenset({Knob.CACHE_TTL}))

    why = out_of_reach(space, START, cache_config(ratio=0.2))

    assert why == "evictionRatio: not every agent can change it live"


def test_before_an_incumbent_fits_the_policy_the_control_plane_decides() -> None:
    asked = CacheConfig(cache_ttl=cache_config(ttl=5).cache_ttl)

    assert asked_in_vain(CHAT, asked) is None
    lacking = config({Knob.CACHE_TTL: 30.0})
    assert asked_in_vain(replace(CHAT, status=PolicyStatus(incumbent=lacking)), asked) is None
    assert asked_in_vain(replace(CHAT, status=PolicyStatus(incumbent=START)), asked) is not None


@given(
    ttl=st.integers(1, 2000), host_gib=st.integers(1, 2000), ratio=st.integers(1, 999).map(lambda n: n / 1000)
)
def test_whatever_is_outside_the_box_is_refused_and_nothing_inside_is(
    ttl: int, host_gib: int, ratio: float
) -> None:
    wanted = cache_config(ttl, ratio, host_gib)

    why = out_of_reach(SPACE, START, wanted)

    if point(wanted) != point(START):
        assert (why is None) == step_box(SPACE, START).holds(wanted)
    assert why != ""
