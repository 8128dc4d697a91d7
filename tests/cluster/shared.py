"""What all tests of one file share: a namespace, an operator, a farm of agents; and how they look at it."""

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.cluster.farm import Farm, Herd, farm
from tests.cluster.operators import Operator, Policies, rights
from tests.e2e.processes import until
from tools.controlplane.access import Access
from tools.controlplane.errors import Answered

Object = dict[str, Any]


@contextmanager
def fresh_namespace(access: Access) -> Iterator[str]:
    """A namespace, deleted after, not waited for."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    access.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    try:
        until(lambda: access.reads(f"/api/v1/namespaces/{name}/serviceaccounts/default"), f"{name} is ready")
        yield name
    finally:
        access.call("DELETE", f"/api/v1/namespaces/{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One operator in a namespace of its own, with the farm of that namespace."""

    access: Access
    namespace: str
    folder: Path
    operator: Operator
    farm: Farm
    policies: Policies

    def settings(self, text: str) -> None:
        """Replace the operator's settings (its ConfigMap)."""
        put_settings(self.access, self.namespace, text)

    def condition(self, policy: str, kind: str, status: str, reason: str) -> Object:
        """A condition of a policy, once it is as wanted."""

        def found() -> Object | None:
            held = self.policies.condition(policy, kind)
            return held if (held.get("status"), held.get("reason")) == (status, reason) else None

        return until(found, f"{policy} has {kind}={status} ({reason})", lambda: self.context(policy))

    def status(self, policy: str) -> Object:
        """The status of a policy; empty while there is none."""
        return dict((self.policies.get(policy) or {}).get("status", {}))

    def events(self, name: str, reason: str = "") -> list[Object]:
        """Events about an object of this namespace, by its name."""
        fields = f"involvedObject.name={name}" + (f",reason={reason}" if reason else "")
        path = f"/api/v1/namespaces/{self.namespace}/events"
        return list(self.access.query(path, fieldSelector=fields)["items"])

    def ticks(self, count: int) -> None:
        """Wait until the operator has made so many steps more for each of its policies."""
        wanted = steps(self.operator) + count * int(self.operator.details()["policies"])
        until(lambda: steps(self.operator) >= wanted, f"{count} steps", lambda: self.operator.err[-2000:])

    def context(self, policy: str) -> object:
        """What to show where a wait has failed."""
        return json.dumps(self.status(policy), indent=1)[-4000:], self.operator.err[-3000:]

    def columns(self, policy: str) -> dict[str, str]:
        """The line of `kubectl get kvp NAME`, by column."""
        shown = self.access.kubectl("get", "kvp", policy, "-n", self.namespace)
        assert shown.returncode == 0, shown.stderr
        head, line = shown.stdout.splitlines()[:2]
        starts = [
            index for index, char in enumerate(head) if char != " " and (index == 0 or head[index - 1] == " ")
        ]
        ends = [*starts[1:], None]
        return {head[a:b].strip(): line[a:b].strip() for a, b in zip(starts, ends, strict=True)}


@contextmanager
def scene(
    access: Access, folder: Path, *herds: Herd, settings: str = "", url: str | None = None, **options: Any
) -> Iterator[Scene]:
    """An operator with the rights of examples/operator.yaml that leads, and agents in its namespace."""
    with ExitStack() as stack:
        namespace = stack.enter_context(fresh_namespace(access))
        stack.enter_context(rights(access, namespace, options.get("example", "operator.yaml")))
        made = stack.enter_context(farm(access, namespace, folder, *herds))
        if settings:
            put_settings(access, namespace, settings)
        arguments = options.get("arguments", ("--lease=20",))
        operator = Operator(access, namespace, folder, "operator", *arguments, url=url)
        stack.callback(operator.clean_up)
        operator.until_stage("Leading")
        yield Scene(
            access=access,
            namespace=namespace,
            folder=folder,
            operator=operator,
            farm=made,
            policies=Policies(access, namespace),
        )


def put_settings(access: Access, namespace: str, text: str) -> None:
    """Create or replace an operator's ConfigMap."""
    root = f"/api/v1/namespaces/{namespace}/configmaps"
    data: Mapping[str, Any] = {"metadata": {"name": "kvtune-operator"}, "data": {"config.yaml": text}}
    try:
        access.call("PATCH", f"{root}/kvtune-operator", data)
    except Answered as error:
        if error.status != 404:
            raise
        access.call("POST", root, data)


def steps(operator: Operator) -> float:
    """How many steps it has made, over all policies."""
    return sum(
        value for name, value in metrics(operator) if name.startswith("kvtune_tick_duration_seconds_count")
    )


def metrics(operator: Operator) -> list[tuple[str, float]]:
    """The operator's own metrics: name with labels, value."""
    text = httpx.get(f"{operator.address}/metrics", trust_env=False).text
    lines = [line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, float(value)) for name, _, value in lines]
