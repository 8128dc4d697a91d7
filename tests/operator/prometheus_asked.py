"""Ask a Prometheus once, and its failures by name."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kvtune_api.codec import parse
from kvtune_api.errors import Unavailable
from kvtune_api.sources import PrometheusSource
from kvtune_operator.adapters.credentials import Credentials, no_credentials
from kvtune_operator.adapters.prometheus import PrometheusMetrics
from kvtune_operator.clock import WallClock
from kvtune_operator.ports import Unreachable
from kvtune_operator.sources import resolved

SECRET = "swordfish-7"
EMPTY = {"status": "success", "data": {"resultType": "matrix", "result": []}}


def metrics_at(
    address: str,
    *,
    credentials: Callable[[], Awaitable[Credentials | None]] = no_credentials,
    quotes: bool = True,
    **source: Any,
) -> PrometheusMetrics:
    asked = parse(PrometheusSource, {"address": address, "timeout": "2s", **source})
    clock = WallClock()
    return PrometheusMetrics(
        resolved(asked, PrometheusSource()),
        lambda agent: agent,
        "ai",
        credentials,
        clock.now,
        monotonic=clock.monotonic,
        quotes=quotes,
    )


async def newest(metrics: PrometheusMetrics) -> Any:
    return (await metrics.newest({"chat-1": Unreachable(message="")}))["chat-1"]


async def trouble(metrics: PrometheusMetrics) -> str:
    with pytest.raises(Unavailable) as caught:
        await newest(metrics)
    message = str(caught.value)
    assert "/api/v1/query" in message
    assert "1 agents" in message
    return message
