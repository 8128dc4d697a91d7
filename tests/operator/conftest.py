"""State directories, kubeconfigs and agents over HTTP, as tests of several adapters use them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kvtune_operator.adapters.agents import HttpAgents, TokenFile
from kvtune_operator.adapters.fetch import Fetcher, fetching
from kvtune_operator.statedir import StateDir


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    """A state directory that does not exist yet."""
    return StateDir(tmp_path / "state")


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Where a kubeconfig may be written."""
    return tmp_path / "kubeconfig"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """The file of the token that agents take."""
    path = tmp_path / "token"
    path.write_text("correct-horse\n")
    return path


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    """Who asks agents, with a timeout that none of them should need."""
    async with fetching(timeout_seconds=5.0) as made:
        yield made


@pytest.fixture
def agents(fetcher: Fetcher, token: Path) -> HttpAgents:
    """Agents that are named by their addresses."""
    return HttpAgents(fetcher, TokenFile(token))
