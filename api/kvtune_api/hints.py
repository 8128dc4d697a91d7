"""What a client knows of its request and its session when it sends it: a hint for the cache, never an order.

In batches of a replay, in recordings, and in what an engine hands on from its clients (vLLM's
`kv_transfer_params`).
"""

from typing import Annotated

from pydantic import Field, model_validator

from kvtune_api.codec import dump, frozen
from kvtune_api.scalars import NUMBER, Switch

RETURN_SECONDS_MAX = 10**9
"""Some 30 years."""

TOOL_SECONDS = 53.0
"""Mean time to the next request of agents that stopped to run a tool (the agentic trace; 98 of 100 come
back)."""

OVER = -1.0

KINDS_MAX = 5
"""Kinds that are told apart."""


@frozen
class Hint:
    """What is to be expected after a request. What is not said is not known."""

    session_ended: Switch = False
    """No further request of this session will come."""

    tool_running: Switch = False
    """The client runs a tool, and sends the next request when it has ended."""

    expected_return_seconds: Annotated[float, Field(gt=0, le=RETURN_SECONDS_MAX), NUMBER] | None = None
    """When the next request is expected, seconds after this one."""

    request_kind: Annotated[int, Field(ge=0, le=KINDS_MAX), NUMBER] = 0
    """Type of the request, or what its answer ends with, as its senders number them; 0: not known."""

    @model_validator(mode="after")
    def _ended_or_not(self) -> "Hint":
        if self.session_ended and (self.tool_running or self.expected_return_seconds is not None):
            other = "toolRunning" if self.tool_running else "expectedReturnSeconds"
            raise ValueError(f"sessionEnded: true contradicts {other}")
        return self

    def said(self) -> dict[str, object]:
        """Plain data of what is said, and of nothing else."""
        return {name: value for name, value in dump(self).items() if value}

    @property
    def returns_in_seconds(self) -> float:
        """The session as one number: seconds until the session returns; below 0: it is over; 0: not known."""
        if self.session_ended:
            return OVER
        if self.expected_return_seconds is not None:
            return self.expected_return_seconds
        return TOOL_SECONDS if self.tool_running else 0.0
