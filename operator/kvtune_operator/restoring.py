"""Let one agent run its eviction policy again after a fallback to LRU, without a control plane.

Called by `kvtune restore ADDRESS`.
"""

from dataclasses import dataclass
from pathlib import Path

from kvtune_api.errors import Unavailable
from kvtune_api.wire import Fallback, Report
from kvtune_operator.ports import Accepted
from kvtune_operator.standalone import agent_ports

TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What an agent ran, and runs now."""

    agent: str
    policy: str
    """The eviction policy that it was asked to run, and runs now."""

    ended: Fallback | None
    """The fallback that is over; None where there was none."""


async def restore_agent(
    address: str, token_file: Path, *, ca_file: Path | None = None, insecure: bool = False
) -> Restored:
    """Ask an agent; raises `Unavailable` where it, the token or the authorities are not to be had."""
    where = address.rstrip("/").lower()
    ports = agent_ports(
        (where,), token_file, timeout_seconds=TIMEOUT_SECONDS, ca_file=ca_file, insecure=insecure
    )
    async with ports as (agents, _metrics):
        before = (await agents.reports((where,)))[where]
        if not isinstance(before, Report):
            raise Unavailable(before.message)
        answer = (await agents.restore((where,)))[where]
        if not isinstance(answer, Accepted):
            raise Unavailable(answer.message)
    policy = before.running.config.eviction_policy
    return Restored(agent=before.agent, policy=str(policy or "its own policy"), ended=before.fallback)
