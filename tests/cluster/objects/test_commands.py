"""Commands by annotation, and statuses that nobody can read."""

import pytest

from kvtune_api.errors import Unavailable
from kvtune_api.knobs import CacheConfig
from kvtune_api.names import Reason
from kvtune_api.status import PolicyStatus
from kvtune_api.units import Duration
from kvtune_operator.adapters.kube import Kube
from kvtune_operator.adapters.kubernetes_forms import policy_path
from kvtune_operator.adapters.kubernetes_objects import KubernetesObjects
from kvtune_operator.ports import Stored
from kvtune_tuner.model import Event, EventType, Verb
from tests.cluster.fixtures import Kubectl
from tests.cluster.objects.made import made, read


async def test_users_command_by_kubectl_annotate(
    kube: Kube, namespace: str, objects: KubernetesObjects, kubectl: Kubectl
) -> None:
    await made(kube, namespace)
    wishes = (
        "kvtune.dev/abort=chat-1",
        "kvtune.dev/approve=chat-2",
        "kvtune.dev/resume=please",
        'kvtune.dev/try={"cacheTTL": "90s"}',
    )
    done = kubectl("annotate", "kvp", "chat", "-n", namespace, *wishes)
    assert done.returncode == 0, done.stderr

    commands = await objects.commands("chat")

    assert [(command.verb, command.target) for command in commands] == [
        (Verb.ABORT, "chat-1"),
        (Verb.APPROVE, "chat-2"),
        (Verb.RESUME, ""),
        (Verb.TRY, ""),
    ]
    assert commands[3].config == CacheConfig(cache_ttl=Duration("90s"))
    await kubectl_annotate(kubectl, namespace, "kvtune.dev/abort=chat-3")
    await objects.forget(commands)
    left = await objects.commands("chat")
    assert [command.target for command in left] == ["chat-3"], "what was changed meanwhile stays"


async def kubectl_annotate(kubectl: Kubectl, namespace: str, wish: str) -> None:
    done = kubectl("annotate", "kvp", "chat", "-n", namespace, wish, "--overwrite")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "wish", ["90s", "{", "<&>", "é\x7f", '{"cacheTTL": "soon"}', '{"colour": 1}', "", "[" * 5000]
)
async def test_a_command_that_cannot_be_read_is_told_of_once_and_removed(
    kube: Kube, namespace: str, wish: str
) -> None:
    told: list[Event] = []

    async def tell(policy: Stored, event: Event) -> None:
        assert policy.metadata.name == "chat"
        told.append(event)

    objects = KubernetesObjects(kube, namespace, tell=tell)
    await made(kube, namespace)
    await kube.merge(policy_path(namespace, "chat"), {"metadata": {"annotations": {"kvtune.dev/try": wish}}})

    assert await objects.commands("chat") == ()
    assert await objects.commands("chat") == ()

    assert [event.type for event in told] == [EventType.WARNING]
    assert told[0].message.startswith("try: ")


async def test_a_status_that_cannot_be_read_is_kept_and_told_of(
    kube: Kube, namespace: str, kubectl: Kubectl
) -> None:
    told: list[Event] = []

    async def tell(policy: Stored, event: Event) -> None:
        told.append(event)

    objects = KubernetesObjects(kube, namespace, tell=tell)
    policy = await made(kube, namespace)
    await objects.put_policy_status(policy, PolicyStatus(agents=6))
    path = f"{policy_path(namespace, 'chat')}/status"
    raw = await kube.get(path)
    assert raw is not None
    await kube.replace(path, {**raw, "status": {**raw["status"], "trials": "nonsense"}})

    with pytest.raises(Unavailable, match=r"policy chat: .* kept as it is: status\.trials: "):
        await objects.policy("chat")

    assert [event.reason for event in told] == [Reason.INVALID]
    patch = '{"status":null}'
    done = kubectl(
        "patch", "kvp", "chat", "-n", namespace, "--subresource=status", "--type=merge", "-p", patch
    )
    assert done.returncode == 0, done.stderr
    assert (await read(kube, namespace)).status is None
