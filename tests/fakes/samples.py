"""Policies, experiments and configurations that tests of several rooms share."""

from dataclasses import replace
from typing import Any

from kvtune_api.codec import digest, parse
from kvtune_api.experiment import BlockKind, Epoch, ExperimentSpec, ExperimentStatus, KVCacheExperiment
from kvtune_api.knobs import CacheConfig, Knob, config
from kvtune_api.ledger import Decision, Figures, Row
from kvtune_api.metadata import Metadata
from kvtune_api.names import Phase
from kvtune_api.policy import KVCachePolicy
from kvtune_api.status import Pair
from kvtune_api.wire import Push, Role

GIB = 2**30


def cache_config(ttl: float = 30.0, host_gib: float = 57.0, ratio: float = 0.3) -> CacheConfig:
    """A configuration with all three knobs."""
    return config({Knob.CACHE_TTL: ttl, Knob.HOST_MEMORY: host_gib * GIB, Knob.EVICTION_RATIO: ratio})


def policy(name: str = "chat", **spec: Any) -> KVCachePolicy:
    """A valid policy; `spec` replaces parts of its spec, as a document says them."""
    document = {
        "metadata": {"name": name},
        "spec": {
            "targets": {"ttft": {"quantile": 0.9, "limit": "250ms"}},
            "objective": {"prices": {"memory": 0.05, "evictionPass": 1}},
            "knobs": {"cacheTTL": {"min": "30s", "max": "600s", "largestStep": 4}},
            **spec,
        },
    }
    return parse(KVCachePolicy, document)


def experiment(
    name: str = "chat-1", *, number: int = 1, rows: int = 4, of: str = "chat"
) -> KVCacheExperiment:
    """A running experiment with some rows in its ledger."""
    spec = policy(of).spec
    return KVCacheExperiment(
        metadata=Metadata(name=name),
        spec=ExperimentSpec(
            policy=of,
            policy_uid="uid-1",
            policy_spec=spec,
            policy_hash=digest(spec),
            number=number,
            incumbent=cache_config(),
            candidate=cache_config(ttl=120.0),
            strategy="Ladder",
            seed=7,
            pairs=(Pair(first="http://a:1", second="http://b:1"),),
            pairing="0123456789abcdef",
            max_pairs=24,
            run_in=True,
        ),
        status=ExperimentStatus(
            phase=Phase.MEASURING,
            washout=30.0,
            window=120.0,
            epoch=Epoch(
                block=rows // 2 + 1,
                attempt=0,
                epoch=1,
                kind=BlockKind.TEST,
                switch_at=1000.0,
                measure_from=1030.0,
                measure_to=1150.0,
                generation=9,
            ),
            rows=tuple(row(index) for index in range(rows)),
            decisions=(
                Decision(
                    block=1, attempt=0, deltas=1, verdict="Continue", reason="MinPairs", e_values={"a": 0.5}
                ),
            ),
        ),
    )


def row(index: int) -> Row:
    """One ledger row."""
    figures = Figures(requests=600.0, prompt_tokens=1.2e6, hit_tokens=6e5, within=480.0, timed=600.0)
    start = 150.0 * index
    return Row(
        block=index // 2 + 1,
        epoch=1 if index % 2 == 0 else 2,
        pair=0,
        coin=True,
        start=start,
        end=start + 120.0,
        candidate=replace(figures, hit_tokens=6.1e5 + index),
        control=figures,
    )


def push(generation: int = 1, *, token: int = 5, ttl: float = 120.0, uid: str = "uid-1") -> Push:
    """A candidate for an agent."""
    return Push(
        role=Role.CANDIDATE,
        generation=generation,
        token=token,
        policy_uid=uid,
        config=cache_config(ttl=ttl),
        lease_seconds=30.0,
    )


def incumbent_push(generation: int = 1, *, token: int = 5, ttl: float = 30.0, uid: str = "uid-1") -> Push:
    """An incumbent for an agent."""
    return Push(
        role=Role.INCUMBENT,
        generation=generation,
        token=token,
        policy_uid=uid,
        config=cache_config(ttl=ttl),
    )
