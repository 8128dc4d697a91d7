"""The operator's settings in a ConfigMap: implements `live_config.ConfigStore`."""

import hashlib
import logging
from collections.abc import Callable
from datetime import datetime

from kvtune_api.errors import Conflict, Unavailable
from kvtune_operator.adapters.kube import Kube
from kvtune_operator.live_config import KEY, ConfigText

log = logging.getLogger(__name__)

MESSAGE_LIMIT = 1024
COMPONENT = "kvtune-operator"


class ConfigMapStore:
    """One ConfigMap, read by GET."""

    def __init__(self, kube: Kube, *, namespace: str, name: str, now: Callable[[], datetime]) -> None:
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._now = now

    async def read(self) -> ConfigText | None:
        """The settings; None when there is no such ConfigMap. Raises `Unavailable`."""
        found = await self._kube.get(f"/api/v1/namespaces/{self._namespace}/configmaps/{self._name}")
        if found is None:
            return None
        metadata = found["metadata"]
        text = (found.get("data") or {}).get(KEY)
        return ConfigText(uid=metadata["uid"], version=metadata["resourceVersion"], text=text)

    async def warn(self, found: ConfigText, message: str) -> None:
        """Leave a Warning event at the ConfigMap, one for each version and message; never fails."""
        name = hashlib.sha256(f"{found.uid}/{found.version}/{message}".encode()).hexdigest()[:16]
        stamp = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{self._name}.{name}", "namespace": self._namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": self._name,
                "namespace": self._namespace,
                "uid": found.uid,
                "resourceVersion": found.version,
            },
            "type": "Warning",
            "reason": "Invalid",
            "message": message[:MESSAGE_LIMIT],
            "count": 1,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
        }
        try:
            await self._kube.create(f"/api/v1/namespaces/{self._namespace}/events", event)
        except Conflict:
            return
        except Unavailable as error:
            log.warning("event not recorded", extra={"error": str(error)})
