"""Tell what happens to a pod as Events, each text once."""

import contextlib

from tools.kubelet_standin.api import Api, ApiError, Object
from tools.kubelet_standin.clock import timestamp

TEXTS_MAX = 100


class Events:
    """The recorder of one pod."""

    def __init__(self, api: Api, pod: Object) -> None:
        self._api = api
        self._pod = pod
        self._told: set[tuple[str, str]] = set()

    async def tell(self, kind: str, reason: str, message: str) -> None:
        """Write an Event of kind Normal or Warning; what fails is not told."""
        if (reason, message) in self._told or len(self._told) >= TEXTS_MAX:
            return
        meta, now = self._pod["metadata"], timestamp()
        pod = {"kind": "Pod", "apiVersion": "v1", **{k: meta[k] for k in ("name", "namespace", "uid")}}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{meta['name'][:200]}.", "namespace": meta["namespace"]},
            "involvedObject": pod,
            "type": kind,
            "reason": reason,
            "message": message[:1000],
            "source": {"component": "kubelet", "host": self._pod["spec"]["nodeName"]},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        with contextlib.suppress(ApiError):  # the namespace may be ending; the status tells the same
            await self._api.create(f"/api/v1/namespaces/{meta['namespace']}/events", body)
            self._told.add((reason, message))
