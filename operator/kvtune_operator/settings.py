"""What the control plane's process is told at its start. Frozen, checked once, passed down."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from kvtune_api.errors import Problem, SpecError

SPEED_LIMIT = 10_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one control plane. Raises `SpecError` with every problem at once."""

    state_dir: Path
    """Folder for policies, experiments, events and the inbox. One control plane at a time holds it."""

    token_file: Path
    """File with the bearer token that the agents accept for writes."""

    agents: tuple[str, ...] = ()
    """Addresses of the agents; when given, the policy's own are not used."""

    policy_file: Path | None = None
    """File that is read again when it changes."""

    ca_file: Path | None = None
    """Certificates of authorities to trust for https agents, beside the system's own."""

    origin: float = 0.0
    """Unix second at which scaled time and wall time agree."""

    speed: float = 1.0
    """Scaled seconds per wall second."""

    tick_seconds: float = 5.0
    """Scaled seconds between two steps of a policy."""

    http_timeout_seconds: float = 2.0
    """Wall seconds in which an agent must have answered; never scaled."""

    http_parallel: int = 64
    """At most this many requests at once."""

    insecure: bool = False
    """Send the token over plain http to other machines, too."""

    ends_at: datetime | None = None
    """Scaled time at which the control plane is to stop; no experiment starts that cannot end by then."""

    history_limit: int = 1000
    """This many experiments are kept on disk."""

    health_host: str = "127.0.0.1"
    health_port: int | None = None
    """Port for /healthz, /readyz, /metrics and /v1/status; 0 takes a free one, None serves none."""

    def __post_init__(self) -> None:
        found = tuple(self._problems())
        if found:
            raise SpecError(*found)

    @property
    def stuck_after_seconds(self) -> float:
        """Wall seconds without a finished step after which the control plane counts as stuck."""
        return max(10.0, 3 * self.tick_seconds / self.speed, 6 * self.http_timeout_seconds)

    def _problems(self) -> Iterator[Problem]:
        numbers = (
            ("speed", self.speed, SPEED_LIMIT),
            ("tickSeconds", self.tick_seconds, 3600.0),
            ("httpTimeoutSeconds", self.http_timeout_seconds, 300.0),
            ("httpParallel", self.http_parallel, 1000),
            ("historyLimit", self.history_limit, 1_000_000),
        )
        for name, value, limit in numbers:
            if not (math.isfinite(value) and 0 < value <= limit):
                yield Problem(name, f"{value:g} is not above 0 and at most {limit:g}")
        if not (math.isfinite(self.origin) and self.origin >= 0):
            yield Problem("origin", f"{self.origin:g} is not a unix time")
        if self.health_port is not None and not 0 <= self.health_port <= 65_535:
            yield Problem("healthPort", f"{self.health_port} is not between 0 and 65535")
        for index, address in enumerate(self.agents):
            if trouble := address_trouble(address):
                yield Problem(f"agents[{index}]", trouble)


def address_trouble(address: str) -> str | None:
    """What is wrong with an agent's address, if anything."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        return f"{address!r} is not an address: {error}"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"{address!r} is not an address such as http://127.0.0.1:9000"
    if port == 0 or parts.path not in ("", "/") or parts.query or parts.fragment:
        return f"{address!r} must hold a host and a port only, such as http://127.0.0.1:9000"
    if parts.username is not None or parts.password is not None:
        return "an address must not hold a user or a password"
    return None
