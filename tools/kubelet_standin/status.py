"""What a pod's status says, from the states of its containers. Pure."""

from tools.kubelet_standin.api import Object
from tools.kubelet_standin.clock import timestamp


def pod_status(
    pod: Object,
    inits: list[Object],
    containers: list[Object],
    *,
    address: str,
    began: str,
    since: dict[str, tuple[str, str]],
) -> Object:
    """The status of a pod; `since` remembers when each condition turned."""
    initialized = all(c["state"].get("terminated", {}).get("exitCode") == 0 for c in inits)
    ready = initialized and all(c["ready"] for c in containers)
    phase = _phase(pod, inits, containers)
    unready = [c["name"] for c in containers if not c["ready"]]
    why = "PodCompleted" if phase == "Succeeded" else "ContainersNotReady"
    said = {} if ready else {"reason": why, "message": f"containers with unready status: {unready}"}
    return {
        "phase": phase,
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": began,
        "conditions": [
            _condition("PodReadyToStartContainers", True, {}, since),
            _condition("Initialized", initialized, {}, since),
            _condition("Ready", ready, said, since),
            _condition("ContainersReady", ready, said, since),
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": began},
        ],
        "initContainerStatuses": inits,
        "containerStatuses": containers,
        "qosClass": pod.get("status", {}).get("qosClass", "BestEffort"),
    }


def _phase(pod: Object, inits: list[Object], containers: list[Object]) -> str:
    policy = pod["spec"].get("restartPolicy", "Always")
    codes = [c["state"].get("terminated", {}).get("exitCode") for c in containers]
    if any(c["state"].get("terminated", {}).get("exitCode", 0) != 0 for c in inits) and policy == "Never":
        return "Failed"
    if policy != "Always" and None not in codes and (policy == "Never" or not any(codes)):
        return "Failed" if any(codes) else "Succeeded"
    if pod["metadata"].get("deletionTimestamp") and None not in codes:
        return "Failed" if any(codes) else "Succeeded"
    started = any("waiting" not in c["state"] or c["restartCount"] for c in containers)
    return "Running" if started else "Pending"


def _condition(kind: str, good: bool, said: Object, since: dict[str, tuple[str, str]]) -> Object:
    status = "True" if good else "False"
    if kind not in since or since[kind][0] != status:
        since[kind] = (status, timestamp())
    return {"type": kind, "status": status, "lastTransitionTime": since[kind][1], **said}
