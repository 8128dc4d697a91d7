"""What all policies share: one policy that cannot be read must not keep the others from being served."""

import logging
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from kvtune_api.codec import dump
from kvtune_api.operator_config import OperatorConfig
from kvtune_api.policy import KVCachePolicy
from kvtune_operator.adapters.fetch import fetching
from kvtune_operator.adapters.kube import Kube
from kvtune_operator.clock import WallClock
from kvtune_operator.cluster_parts import Parts
from kvtune_operator.cluster_settings import ClusterSettings
from kvtune_operator.cluster_telemetry import ClusterTelemetry
from kvtune_operator.observed import Pulse
from tests.fakes.samples import policy


class Server:
    """Lists what a test has put into it."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []

    def put(self, name: str, **metadata: object) -> None:
        held = {"name": name, "namespace": "chat", "uid": f"uid-{name}", "resourceVersion": "1"}
        self.items.append({"metadata": {**held, **metadata}, "spec": dump(policy().spec)})

    async def listed(self, path: str) -> tuple[tuple[dict[str, Any], ...], str]:
        return tuple(self.items), "1"


class Defaults:
    """Settings as if there were none."""

    config = OperatorConfig()
    trouble = ""


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def parts(server: Server) -> AsyncIterator[Parts]:
    async with fetching(timeout_seconds=1.0) as fetcher:
        made = Parts(
            kube=cast(Kube, server),
            fetcher=fetcher,
            settings=ClusterSettings(namespace="kvtune"),
            clock=WallClock(),
            rules=Defaults(),
            telemetry=ClusterTelemetry(),
            pulse=Pulse(started=0.0),
        )
        yield made
        await made.close()


async def test_a_policy_with_many_finalizers_of_others_is_read_as_any(server: Server, parts: Parts) -> None:
    server.put("a", finalizers=[f"example.com/f{number}" for number in range(65)])

    (found,) = await parts.policies()

    assert isinstance(found.stored, KVCachePolicy)
    assert len(found.stored.metadata.finalizers or ()) == 65


@pytest.mark.parametrize("wrong", [{"finalizers": "none"}, {"resourceVersion": "9" * 65}])
async def test_a_policy_that_cannot_be_read_is_known_by_name_and_the_others_are_served(
    server: Server, parts: Parts, wrong: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    server.put("a", **wrong)
    server.put("b")
    with caplog.at_level(logging.WARNING):
        bad, good = await parts.policies()

    assert (bad.key, bad.stored, bad.mark.uid) == (("chat", "a"), None, "uid-a")
    assert isinstance(good.stored, KVCachePolicy)
    assert [vars(record)["policy"] for record in caplog.records] == ["chat/a"]
