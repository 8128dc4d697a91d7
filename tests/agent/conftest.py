"""One agent in process, behind its HTTP application."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from kvtune_agent.agent import Agent
from kvtune_agent.app import create_app
from kvtune_agent.tokens import TokenFile
from tests.agent.fake_clock import FakeClock
from tests.agent.samples import new_agent


@pytest.fixture
def clock() -> FakeClock:
    """The agent's clock."""
    return FakeClock()


@pytest.fixture
def agent(tmp_path: Path, clock: FakeClock) -> Iterator[Agent]:
    """An agent on the replay engine."""
    made = new_agent(tmp_path, clock)
    yield made
    made.close()


@pytest.fixture
async def client(agent: Agent, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the agent's application."""
    app = create_app(agent, TokenFile(tmp_path / "token"))
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://agent") as made:
        yield made
