"""Configurations are compared by what they say, not by how it is written."""

import math

from kvtune_api.knobs import CacheConfig, EvictionPolicy, Knob
from kvtune_api.units import Duration
from kvtune_tuner.configs import RECENCY, distance, evicts_by, same_config, steps_written, with_values
from tests.tuner.proposal_cases import GIB, chat_report, made


def test_the_same_values_in_other_words_are_the_same_configuration() -> None:
    assert same_config(CacheConfig(cache_ttl=Duration("1h")), CacheConfig(cache_ttl=Duration("60m")))
    assert not same_config(made(30), made(31))
    assert not same_config(made(30), made(None))


def test_distance_is_the_log_of_the_ratio_per_knob() -> None:
    apart = distance(made(30, 0.3, None), made(60, 0.3, 57))
    assert apart == {Knob.CACHE_TTL: math.log(2), Knob.EVICTION_RATIO: 0.0, Knob.HOST_MEMORY: math.inf}


def test_a_configuration_without_a_policy_evicts_as_its_agents_say_that_they_do() -> None:
    ours = chat_report("a", runs=made(policy=EvictionPolicy.REUSE_AWARE))
    silent = chat_report("b", runs=made())
    assert evicts_by(made(), [silent, ours]) is EvictionPolicy.REUSE_AWARE
    assert evicts_by(made(policy=EvictionPolicy.FIFO), [ours]) is EvictionPolicy.FIFO
    assert evicts_by(made(), [silent]) is None
    assert evicts_by(made(), []) in RECENCY


def test_setting_one_knob_leaves_the_others() -> None:
    assert with_values(made(30, 0.3, 57), {Knob.HOST_MEMORY: 60 * GIB}) == made(30, 0.3, 60)


def test_what_changes_is_written_as_users_write_it() -> None:
    assert steps_written(made(30, 0.3, 57), made(120, 0.3, 228)) == (
        "cacheTTL 30s -> 120s, tiers.hostMemory 57Gi -> 228Gi"
    )
    assert steps_written(made(None), made(30)) == "cacheTTL unset -> 30s"
