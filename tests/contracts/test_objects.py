"""What every store of policies and experiments must do: the port `Objects`, thrice."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kvtune_api.codec import dump, parse
from kvtune_api.errors import Conflict
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.names import POLICIES
from kvtune_api.policy import KVCachePolicy, PolicySpec, Retention
from kvtune_api.status import PolicyStatus
from kvtune_operator.adapters.files import FileObjects
from kvtune_operator.adapters.kube import Kube
from kvtune_operator.adapters.kubernetes_forms import collection, policy_path
from kvtune_operator.adapters.kubernetes_objects import KubernetesObjects
from kvtune_operator.ports import Objects, Stored
from kvtune_operator.statedir import StateDir, Wish, leave
from kvtune_tuner.model import Verb
from tests.fakes import samples
from tests.fakes.objects import FakeObjects
from tests.fakes.samples import policy


@dataclass(frozen=True)
class Store:
    """One implementation, and how a user reaches it."""

    objects: Objects
    apply: Callable[[KVCachePolicy], Awaitable[KVCachePolicy]]
    command: Callable[[Verb, str], Awaitable[None]]


def in_memory() -> Store:
    objects = FakeObjects()

    async def apply(document: KVCachePolicy) -> KVCachePolicy:
        return objects.apply(document.metadata.name, document.spec)

    async def command(verb: Verb, target: str) -> None:
        objects.command(verb, target)

    return Store(objects, apply, command)


def in_cluster(kube: Kube, namespace: str) -> Store:
    objects = KubernetesObjects(kube, namespace)

    async def command(verb: Verb, target: str) -> None:
        annotations = {f"kvtune.dev/{verb}": target or "now"}
        await kube.merge(policy_path(namespace, "chat"), {"metadata": {"annotations": annotations}})

    return Store(objects, lambda document: applied(kube, namespace, document), command)


async def applied(kube: Kube, namespace: str, document: KVCachePolicy) -> KVCachePolicy:
    """Do what `kubectl apply` does: send what differs."""
    name, spec = document.metadata.name, dump(document.spec)
    held = await kube.get(policy_path(namespace, name))
    if held is None:
        await kube.create(collection(namespace, POLICIES), dump(document))
    elif parse(PolicySpec, held["spec"]) != document.spec:
        await kube.replace(policy_path(namespace, name), {**held, "spec": spec})
    stored = await KubernetesObjects(kube, namespace).policy(name)
    assert isinstance(stored, KVCachePolicy)
    return stored


def experiment(name: str = "chat-1", *, number: int = 1, of: str = "chat") -> KVCacheExperiment:
    """An experiment that outlives its policy: a cluster collects those whose owner is not there."""
    made = samples.experiment(name, number=number, of=of)
    kept = replace(made.spec.policy_spec, retention=Retention.ORPHAN)
    return replace(made, spec=replace(made.spec, policy_spec=kept))


@pytest.fixture(params=["memory", "files", "cluster"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield in_memory()
        return
    if request.param == "cluster":
        yield in_cluster(request.getfixturevalue("kube"), request.getfixturevalue("namespace"))
        return
    state, count = StateDir(tmp_path / "state"), iter(range(1000))
    objects = FileObjects(state)

    async def command(verb: Verb, target: str) -> None:
        leave(state, Wish(verb=verb, target=target), unix_milliseconds=next(count))

    yield Store(objects, objects.apply_policy, command)
    objects.close()


async def test_a_policy_that_was_never_applied_is_none(store: Store) -> None:
    assert await store.objects.policy("chat") is None


async def test_a_new_policy_has_a_uid_a_first_generation_and_no_status(store: Store) -> None:
    stored = await store.apply(policy())

    assert stored.metadata.generation == 1
    assert stored.metadata.uid
    assert stored.status is None
    assert await store.objects.policy("chat") == stored


async def test_the_same_spec_again_changes_nothing(store: Store) -> None:
    first = await store.apply(policy())

    assert await store.apply(policy()) == first


async def test_another_spec_is_a_new_generation_of_the_same_object_with_its_status(store: Store) -> None:
    first = await store.apply(policy())
    await store.objects.put_policy_status(first, PolicyStatus(agents=6))

    second = await store.apply(policy(mode="Observe"))

    assert second.metadata.uid == first.metadata.uid
    assert second.metadata.generation == 2
    assert second.status == PolicyStatus(agents=6)


async def test_a_status_is_read_back_as_written(store: Store) -> None:
    read = await store.apply(policy())

    written = await store.objects.put_policy_status(read, PolicyStatus(agents=6, waiting_for="agents"))

    assert await store.objects.policy("chat") == written
    assert written.metadata.resource_version != read.metadata.resource_version
    assert written.metadata.generation == 1, "a status is not a new generation"


async def test_a_status_written_on_an_old_reading_is_a_conflict_and_changes_nothing(store: Store) -> None:
    read = await store.apply(policy())
    newer = await store.objects.put_policy_status(read, PolicyStatus(agents=6))

    with pytest.raises(Conflict):
        await store.objects.put_policy_status(read, PolicyStatus(agents=7))

    assert await store.objects.policy("chat") == newer


async def test_an_edit_between_reading_and_writing_is_a_conflict(store: Store) -> None:
    read = await store.apply(policy())
    await store.apply(policy(mode="Observe"))

    with pytest.raises(Conflict):
        await store.objects.put_policy_status(read, PolicyStatus())


async def test_a_status_of_a_policy_that_is_gone_is_a_conflict(store: Store) -> None:
    never_stored = await in_memory().apply(policy())

    with pytest.raises(Conflict):
        await store.objects.put_policy_status(never_stored, PolicyStatus())


async def test_an_experiment_is_read_back_as_written(store: Store) -> None:
    written = await store.objects.put_experiment(experiment())

    assert await store.objects.experiment("chat-1") == written
    assert written.metadata.resource_version is not None
    assert written.status == experiment().status


async def test_an_experiment_that_does_not_exist_is_none(store: Store) -> None:
    assert await store.objects.experiment("chat-1") is None


async def test_creating_an_experiment_twice_is_a_conflict(store: Store) -> None:
    await store.objects.put_experiment(experiment())

    with pytest.raises(Conflict):
        await store.objects.put_experiment(experiment())


async def test_an_experiment_is_replaced_only_by_a_writer_who_has_read_it(store: Store) -> None:
    first = await store.objects.put_experiment(experiment())
    second = await store.objects.put_experiment(replace(first, status=replace(first.status, message="on")))

    with pytest.raises(Conflict):
        await store.objects.put_experiment(first)

    assert await store.objects.experiment("chat-1") == second


async def test_the_spec_of_an_experiment_never_changes(store: Store) -> None:
    stored = await store.objects.put_experiment(experiment())
    other = replace(stored, spec=replace(stored.spec, seed=stored.spec.seed + 1))

    with pytest.raises(Conflict, match="its spec never changes"):
        await store.objects.put_experiment(other)

    assert await store.objects.experiment(stored.metadata.name) == stored


async def test_an_experiment_that_was_read_before_but_never_existed_is_a_conflict(store: Store) -> None:
    ghost = experiment()
    ghost = replace(ghost, metadata=replace(ghost.metadata, resource_version="3"))

    with pytest.raises(Conflict):
        await store.objects.put_experiment(ghost)


async def test_experiments_are_listed_by_policy_oldest_first(store: Store) -> None:
    for number in (10, 9, 11):
        await store.objects.put_experiment(experiment(f"chat-{number}", number=number))
    await store.objects.put_experiment(experiment("code-1", of="code"))

    assert await store.objects.experiments("chat") == ("chat-9", "chat-10", "chat-11")
    assert await store.objects.experiments("code") == ("code-1",)
    assert await store.objects.experiments("none") == ()


async def test_commands_come_in_order_and_stay_until_forgotten(store: Store) -> None:
    await store.apply(policy())
    await store.command(Verb.ABORT, "chat-1")
    await store.command(Verb.RESUME, "")

    first, second = await store.objects.commands("chat")
    again = await store.objects.commands("chat")
    await store.objects.forget([first])

    assert (first.verb, first.target) == (Verb.ABORT, "chat-1")
    assert (second.verb, second.target) == (Verb.RESUME, "")
    assert again == (first, second)
    assert await store.objects.commands("chat") == (second,)


@pytest.mark.parametrize("target", ["a & b", "<chat-1>", "chat\x7f", "chät-1", "\u2028", "a=b c", '"\\"'])
async def test_a_command_of_any_characters_is_forgotten(store: Store, target: str) -> None:
    await store.apply(policy())
    await store.command(Verb.ABORT, target)
    commands = await store.objects.commands("chat")

    assert [command.verb for command in commands] == [Verb.ABORT]
    await store.objects.forget(commands)

    assert await store.objects.commands("chat") == ()


async def test_forgetting_twice_is_no_error(store: Store) -> None:
    await store.apply(policy())
    await store.command(Verb.RESUME, "")
    commands = await store.objects.commands("chat")
    await store.objects.forget(commands)

    await store.objects.forget(commands)

    assert await store.objects.commands("chat") == ()


async def test_nobody_commands_a_policy_that_is_gone(store: Store) -> None:
    assert await store.objects.commands("chat") == ()


async def test_protecting_twice_and_freeing_twice_is_no_error(store: Store) -> None:
    read: Stored = await store.apply(policy())

    once = await store.objects.protect(read)
    twice = await store.objects.protect(once)
    free = await store.objects.unprotect(twice)
    again = await store.objects.unprotect(free)

    assert twice == once
    assert again == free == await store.objects.policy("chat")
