"""Many agents in one process, for measurements of the control plane.

`python -m tests.benchmarks.agent_farm N DIR` prints one URL a line; it ends when it is killed.
The token is that of DIR/token.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from kvtune_agent.serve import run_agent
from kvtune_agent.settings import AgentSettings
from tests.benchmarks.traffic import CHAT_5


async def farm(count: int, folder: Path) -> None:
    """Serve so many agents until killed."""
    config = CHAT_5.start(0.05)
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            settings = AgentSettings(
                name=f"agent-{number}",
                config=config,
                state_dir=folder / f"agent-{number}",
                token_file=folder / "token",
                keep_seconds=3600.0,
            )
            group.create_task(run_agent(settings, listening=_say))


def _say(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> None:
    """Serve as many agents as asked for."""
    asyncio.run(farm(int(arguments[0]), Path(arguments[1])))


if __name__ == "__main__":
    main(sys.argv[1:])
