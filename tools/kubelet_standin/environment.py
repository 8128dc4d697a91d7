"""Build the environment and the command line of a container, as the kubelet does."""

import base64
import re
from collections.abc import Mapping

from tools.kubelet_standin.api import Api, Object

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class NotYet(Exception):
    """Something that the container needs is not there; try again."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace $(NAME) by its value and $$ by $; an unknown name stays as it is."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(value, text)


async def environment_of(api: Api, pod: Object, container: Object, address: str) -> dict[str, str]:
    """The variables that the pod's author asked for; raise `NotYet` for a Secret or ConfigMap not there."""
    namespace = pod["metadata"]["namespace"]
    found: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        for kind in ("secret", "configMap"):
            if (reference := source.get(f"{kind}Ref")) is not None:
                data = await data_of(api, namespace, kind, reference["name"])
                if data is None and not reference.get("optional"):
                    raise NotYet(f'{kind.lower()} "{reference["name"]}" not found')
                found |= {source.get("prefix", "") + key: text.decode() for key, text in (data or {}).items()}
    for entry in container.get("env", ()):
        if "valueFrom" not in entry:
            found[entry["name"]] = expand(entry.get("value", ""), found)
        elif (value := await _value(api, pod, entry["valueFrom"], address)) is not None:
            found[entry["name"]] = value
    return found


async def _value(api: Api, pod: Object, source: Object, address: str) -> str | None:
    if (field := source.get("fieldRef")) is not None:
        return field_of(pod, field["fieldPath"], address)
    for kind in ("secret", "configMap"):
        if (reference := source.get(f"{kind}KeyRef")) is not None:
            data = await data_of(api, pod["metadata"]["namespace"], kind, reference["name"])
            if data is not None and reference["key"] in data:
                return data[reference["key"]].decode()
            if reference.get("optional"):
                return None
            what = f'{kind.lower()} "{reference["name"]}" not found'
            raise NotYet(what if data is None else f"couldn't find key {reference['key']} in {what[:-10]}")
    raise NotYet(f"env: {', '.join(source)} is not supported by this stand-in")


def field_of(pod: Object, path: str, address: str) -> str:
    """The value of a field of the pod for the downward API; raise `NotYet` for one that is not known."""
    if (subscript := _SUBSCRIPT.fullmatch(path)) is not None:
        return str(pod["metadata"].get(subscript[1], {}).get(subscript[2], ""))
    if path in ("status.podIP", "status.podIPs"):
        return address
    if path in ("status.hostIP", "status.hostIPs"):
        return "127.0.0.1"
    part, _, name = path.partition(".")
    if path in (
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
    ):
        return str(pod[part].get(name, ""))
    raise NotYet(f"env: fieldPath {path!r} is not supported by this stand-in")


async def data_of(api: Api, namespace: str, kind: str, name: str) -> dict[str, bytes] | None:
    """The data of a Secret (kind `secret`) or a ConfigMap (kind `configMap`); None where there is none."""
    plural = "secrets" if kind == "secret" else "configmaps"
    found = await api.get(f"/api/v1/namespaces/{namespace}/{plural}/{name}")
    if found is None:
        return None
    if kind == "secret":
        return {key: base64.b64decode(text) for key, text in (found.get("data") or {}).items()}
    data = {key: str(text).encode() for key, text in (found.get("data") or {}).items()}
    return data | {key: base64.b64decode(text) for key, text in (found.get("binaryData") or {}).items()}
