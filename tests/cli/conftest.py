"""A state directory, free or held by a control plane."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kvtune_api.names import Outcome, OutcomeReason, Phase
from kvtune_api.status import Met, PolicyStatus, Sli, Trial
from kvtune_operator.adapters.files import FileObjects
from kvtune_operator.statedir import StateDir
from tests.fakes.clock import ORIGIN
from tests.fakes.samples import cache_config, experiment, policy


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    """A state directory that does not exist yet."""
    return StateDir(tmp_path / "state")


@pytest.fixture
def held(state: StateDir) -> Iterator[FileObjects]:
    """A state directory that a control plane (this process) holds, with a policy and an experiment."""
    objects = FileObjects(state)
    stored = asyncio.run(objects.apply_policy(policy()))
    begun = experiment()
    record = replace(begun.status, estimated_end=1500.0, power=0.83)
    asyncio.run(objects.put_experiment(replace(begun, status=record)))
    status = PolicyStatus(
        phase=Phase.MEASURING,
        waiting_for="epoch 1 of block 3 ends in 85 s",
        agents=6,
        agents_ready=6,
        experiment="chat-1",
        incumbent=cache_config(),
        slis=(
            Sli(name="ttft", value=0.55, target=0.9, met=Met.VIOLATED),
            Sli(name="hitRate", reason="NoTraffic", met=Met.UNKNOWN),
        ),
        trials=(
            Trial(
                experiment="chat-0",
                number=0,
                candidate=cache_config(ttl=60),
                incumbent=cache_config(),
                strategy="Ladder",
                outcome=Outcome.REJECTED,
                reason=OutcomeReason.HARM_OBJECTIVE,
                ended_at=ORIGIN,
                deltas=9,
                effect=-0.05,
            ),
        ),
    )
    asyncio.run(objects.put_policy_status(stored, status))
    yield objects
    objects.close()
