"""The operator's settings as they are now: read again and again, the last valid ones kept.

Errors are told once, with the field; a control plane that never had valid settings starts no experiment.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from kvtune_api.errors import SpecError, Unavailable
from kvtune_api.operator_config import OperatorConfig
from kvtune_operator.config_text import operator_config

log = logging.getLogger(__name__)

KEY = "config.yaml"
REFRESH_SECONDS = 10.0
"""Wall seconds between two readings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigText:
    """The settings as stored."""

    uid: str
    version: str
    text: str | None
    """None: there is an object, but without the key."""


class ConfigStore(Protocol):
    """Where the settings lie."""

    async def read(self) -> ConfigText | None:
        """The settings; None when there are none. Raises `Unavailable`."""
        ...

    async def warn(self, found: ConfigText, message: str) -> None:
        """Leave an event at the settings; never fails."""
        ...


class LiveConfig:
    """Implement `house.Rules` over a store."""

    def __init__(
        self,
        store: ConfigStore,
        *,
        where: str,
        show: Callable[[bool], None] = lambda valid: None,
        read: Callable[[str], OperatorConfig] = operator_config,
    ) -> None:
        """`where` names the settings to users; `show` is told at each reading whether they are valid."""
        self._reader = read
        self._store = store
        self._where = where
        self._show = show
        self._config: OperatorConfig | None = None
        self._trouble = f"{where} has not been read yet"
        self._version: str | None = None

    @property
    def config(self) -> OperatorConfig:
        """The last valid settings, or the defaults."""
        return self._config or OperatorConfig()

    @property
    def trouble(self) -> str:
        """Why no valid settings are known; empty when some are."""
        return "" if self._config is not None else self._trouble

    async def refresh(self) -> None:
        """Read once. What is wrong is logged and left as an event, once for each version."""
        try:
            found = await self._store.read()
        except Unavailable as error:
            log.warning("cannot read the operator's settings", extra={"error": str(error)})
            if self._version is None:
                self._trouble = f"{self._where} cannot be read: {error}"
            return
        version = "absent" if found is None else f"{found.uid}/{found.version}"
        if version == self._version:
            return
        self._version = version
        await self._take(found)

    async def follow(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Read again and again, for ever."""
        while True:
            await sleep(REFRESH_SECONDS)
            await self.refresh()

    async def _take(self, found: ConfigText | None) -> None:
        if found is None or found.text is None:
            log.info("no settings, defaults are used", extra={"settings": self._where})
            self._config = OperatorConfig()
            self._show(True)
            return
        try:
            self._config = self._reader(found.text)
        except SpecError as error:
            await self._refuse(found, str(error))
            return
        except Exception as error:  # by a bug; whoever wrote them must know that they are not in force
            log.exception("settings not read by a bug", extra={"settings": self._where})
            await self._refuse(found, f"cannot be read ({type(error).__name__}: {error})")
            return
        self._show(True)
        log.info("settings read", extra={"settings": self._where, "version": found.version})

    async def _refuse(self, found: ConfigText, why: str) -> None:
        """Keep the last valid settings and tell why."""
        self._show(False)
        kept = "the last valid ones stay in force" if self._config else "no experiment starts"
        self._trouble = f"{self._where} is invalid: {why}"
        log.error("invalid settings", extra={"settings": self._where, "error": why, "so": kept})
        await self._store.warn(found, f"{self._trouble}; {kept}")
