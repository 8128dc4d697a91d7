"""What a person decides before an agent starts: name, address, engine, start configuration, files, clock.

Made by `__main__` and the command line; passed down, never read again from elsewhere.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path

from kvtune_api.errors import Problem, SpecError
from kvtune_api.knobs import CacheConfig

NAME_PATTERN = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?"
ENGINES = ("replay",)
KEEP_SECONDS_MIN = 600.0
KEEP_SECONDS_MAX = 7 * 86_400.0
SPEED_MAX = 10_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Settings of one agent process. Raises `SpecError` with everything that is wrong.

    `config` is what the engine starts with; it is the incumbent until another one is pushed. `origin` (unix
    seconds) and `speed` make the engine's clock. `keep_seconds` (engine seconds) is how long counters are
    kept for `report?at=`. After a fallback to LRU the policy asked for returns when there was no cause for
    `return_after_seconds` (engine seconds), else on command. What it serves is recorded
    in a file of `record_dir`. Port 0 lets the system choose. With
    `tls_cert_file` (a chain) and `tls_key_file`, both PEM, it serves https; they are read at the start, so
    renewed ones need a restart."""

    name: str
    config: CacheConfig
    state_dir: Path
    token_file: Path
    host: str = "127.0.0.1"
    port: int = 0
    engine: str = "replay"
    preset: str = "h100-llama8b"
    origin: float = 0.0
    speed: float = 1.0
    keep_seconds: float | None = None
    return_after_seconds: float | None = None
    record_dir: Path | None = None
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what no agent can run with."""
        found = [problem for problem in (self._name(), self._port(), self._engine(), self._tls()) if problem]
        found += self._numbers()
        if found:
            raise SpecError(*found)

    @property
    def kept_seconds(self) -> float:
        """How long counters are kept, engine seconds: by default an hour and 10 wall minutes."""
        return self.keep_seconds if self.keep_seconds is not None else 3600.0 + 600.0 * self.speed

    def _name(self) -> Problem | None:
        if re.fullmatch(NAME_PATTERN, self.name):
            return None
        return Problem("name", f"{self.name[:60]!r} is not 1 to 253 letters, digits, '.', '_' or '-'")

    def _port(self) -> Problem | None:
        if 0 <= self.port <= 65_535:
            return None
        return Problem("port", f"{self.port} is not within 0 and 65535")

    def _engine(self) -> Problem | None:
        if self.engine in ENGINES:
            return None
        return Problem("engine", f"{self.engine!r} is not one of {', '.join(ENGINES)}")

    def _tls(self) -> Problem | None:
        if (self.tls_cert_file is None) is (self.tls_key_file is None):
            return None
        given, lacking = (
            ("tlsKeyFile", "tlsCertFile") if self.tls_cert_file is None else ("tlsCertFile", "tlsKeyFile")
        )
        return Problem(lacking, f"is required with {given}")

    def _numbers(self) -> list[Problem]:
        found = []
        if not math.isfinite(self.origin):
            found.append(Problem("origin", f"{self.origin} is not a finite number of seconds"))
        if not 0 < self.speed <= SPEED_MAX:
            found.append(Problem("speed", f"{self.speed} is not within (0, {SPEED_MAX:g}]"))
        quiet = self.return_after_seconds
        if quiet is not None and not 0 < quiet <= KEEP_SECONDS_MAX:
            found.append(Problem("returnAfterSeconds", f"{quiet} is not within (0, {KEEP_SECONDS_MAX:g}]"))
        keep = self.keep_seconds
        if keep is not None and not KEEP_SECONDS_MIN <= keep <= KEEP_SECONDS_MAX:
            found.append(
                Problem("keepSeconds", f"{keep} is not within [{KEEP_SECONDS_MIN:g}, {KEEP_SECONDS_MAX:g}]")
            )
        return found
