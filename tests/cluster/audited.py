"""What the operator of a world has asked of the API server, by its audit log."""

import json
from collections import Counter

from tests.cluster.operators import ACCOUNT
from tests.cluster.world import Object, World


def writes_of_spec(there: World) -> list[str]:
    """The operator's writes to policies that are neither status nor a patch of finalizers or annotations."""
    return [
        f"{call['verb']} {call['requestURI']}"
        for call in calls(there, "kvcachepolicies")
        if call["verb"] in ("create", "update", "delete") and call["objectRef"].get("subresource") != "status"
    ]


def calls(there: World, resource: str) -> list[Object]:
    """What this test's operator has asked of the API server."""
    user = f"system:serviceaccount:{there.namespace}:{ACCOUNT}"
    lines = there.access.audit_file.read_text().splitlines()
    found = [json.loads(line) for line in lines if user in line and resource in line]
    return [call for call in found if call.get("objectRef", {}).get("resource") == resource]


def verbs(there: World) -> Counter[str]:
    """The operator's calls about experiments of `old`, by verb."""
    found = calls(there, "kvcacheexperiments")
    return Counter(call["verb"] for call in found if "old" in call["requestURI"])
