"""Calls of the agent's HTTP surface, and what to look at in their answers."""

import asyncio
from typing import Any

import httpx

from kvtune_agent.agent import Agent
from kvtune_agent.engines.replay import ReplayEngine
from kvtune_api.codec import parse_json
from kvtune_api.wire import Refusal
from tests.agent.fake_clock import ORIGIN
from tests.agent.samples import WRITE, push_body

T = int(ORIGIN)
"""When the agent's clock begins."""


async def put(client: httpx.AsyncClient, **changes: Any) -> httpx.Response:
    """Push a candidate."""
    return await client.put("/v1/config", json=push_body(**changes), headers=WRITE)


def refusal_of(answer: httpx.Response) -> Refusal:
    """The refusal in an answer."""
    return parse_json(Refusal, answer.content)


def requests(count: int, blocks: int = 8) -> dict[str, Any]:
    """A batch of requests spread over five seconds, each with blocks of its own."""
    return {
        "until": T + 5,
        "requests": [
            [T + 5 * i / count, i, 128 * blocks, 10, list(range(i * blocks, (i + 1) * blocks))]
            for i in range(1, count + 1)
        ],
    }


async def turns_until_busy(agent: Agent) -> None:
    """Let others run until the engine has taken a batch."""
    assert isinstance(agent.engine, ReplayEngine)
    for _ in range(1000):
        if agent.engine.pending:
            return
        await asyncio.sleep(0)
    raise AssertionError("no batch was taken")
