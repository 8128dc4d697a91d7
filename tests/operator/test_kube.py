"""API servers that are frozen, cut off, overloaded or wrong: every call ends, and says what to do."""

import asyncio
from pathlib import Path

import pytest

from kvtune_api.errors import Conflict, KvtuneError, SpecError, Unavailable
from kvtune_operator.adapters.kube import connect
from kvtune_operator.adapters.kube_errors import (
    Absent,
    Gone,
    NotAllowed,
    Overloaded,
    Rejected,
    Terminating,
    deed,
)
from tests.fakes.servers import answering, dripping, hearing, raw_server, stuck
from tests.operator.api_server_answers import PODS, POLICY, SHORT, at, said, written


async def failed(kubeconfig: Path, status: int, body: bytes, *, extra: str = "") -> KvtuneError:
    """What a write says when the server answers so."""
    async with answering(body, status=status, extra=extra) as address, at(address, kubeconfig) as kube:
        with pytest.raises(KvtuneError) as caught:
            await kube.replace(f"{POLICY}/status", {})
    return caught.value


async def test_a_frozen_server_ends_the_call_at_the_timeout(kubeconfig: Path) -> None:
    async with stuck() as address, at(address, kubeconfig, timeout_seconds=SHORT) as kube:
        with pytest.raises(Unavailable, match="get kvcachepolicies chat in namespace x: no whole answer"):
            await kube.get(POLICY)


async def test_an_answer_that_never_ends_ends_the_call_at_the_timeout(kubeconfig: Path) -> None:
    async with dripping() as address, at(address, kubeconfig, timeout_seconds=SHORT) as kube:
        with pytest.raises(Unavailable, match=r"no whole answer within 0\.3 s"):
            await kube.get(POLICY)


async def test_no_server_is_unavailable(kubeconfig: Path) -> None:
    async with answering(b"{}") as address:
        pass
    async with at(address, kubeconfig) as kube:
        with pytest.raises(Unavailable, match="Cannot connect"):
            await kube.get(POLICY)


async def test_credentials_that_are_not_taken_are_named(kubeconfig: Path) -> None:
    error = await failed(kubeconfig, 401, said(401, "Unauthorized"))

    assert isinstance(error, NotAllowed)
    assert "does not accept our credentials (to update kvcachepolicies/status chat" in str(error)
    assert "secret-token" not in str(error)


async def test_a_missing_right_is_named_with_verb_resource_and_namespace(kubeconfig: Path) -> None:
    error = await failed(kubeconfig, 403, said(403, "forbidden: User x cannot"))

    assert isinstance(error, NotAllowed)
    assert str(error).startswith("may not update kvcachepolicies/status in namespace x (HTTP 403")


async def test_a_namespace_that_is_being_deleted_is_no_missing_right(kubeconfig: Path) -> None:
    body = said(403, details={"causes": [{"reason": "NamespaceTerminating"}]})

    assert isinstance(await failed(kubeconfig, 403, body), Terminating)


async def test_a_write_that_lost_is_a_conflict(kubeconfig: Path) -> None:
    error = await failed(kubeconfig, 409, said(409, "the object has been modified"))

    assert isinstance(error, Conflict)
    assert "update kvcachepolicies/status chat in namespace x: the object has been modified" in str(error)


async def test_a_write_for_what_is_not_there_says_so(kubeconfig: Path) -> None:
    assert isinstance(await failed(kubeconfig, 404, said(404)), Absent)


async def test_an_old_version_is_gone(kubeconfig: Path) -> None:
    assert isinstance(await failed(kubeconfig, 410, said(410)), Gone)


async def test_what_the_server_finds_wrong_is_told_in_its_words(kubeconfig: Path) -> None:
    error = await failed(kubeconfig, 422, said(422, "status.phase: Unsupported value", reason="Invalid"))

    assert isinstance(error, Rejected)
    assert "status.phase: Unsupported value" in str(error)


@pytest.mark.parametrize(
    ("status", "message"), [(413, "Request entity too large"), (500, "etcdserver: request is too large")]
)
async def test_an_object_that_is_too_large_is_told_of(kubeconfig: Path, status: int, message: str) -> None:
    error = await failed(kubeconfig, status, said(status, message))

    assert isinstance(error, Rejected)
    assert "too large" in str(error)


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("", None), ("soon", None), ("-1", None)])
async def test_an_overloaded_server_may_say_for_how_long(
    kubeconfig: Path, header: str, seconds: float | None
) -> None:
    extra = f"Retry-After: {header}\r\n" if header else ""

    error = await failed(kubeconfig, 429, said(429), extra=extra)

    assert isinstance(error, Overloaded)
    assert error.retry_after_seconds == seconds


async def test_an_overloaded_server_is_asked_nothing_more_until_it_has_had_its_rest(kubeconfig: Path) -> None:
    heard = []

    async def hear(head: dict[str, str], body: bytes) -> tuple[int, bytes]:
        heard.append(head)
        return 429, said(429)

    async with hearing(hear) as address, at(address, kubeconfig, timeout_seconds=SHORT) as kube:
        for _ in range(3):
            with pytest.raises(Overloaded):
                await kube.get(POLICY)
        with pytest.raises(Overloaded, match="not asked, the API server is overloaded") as caught:
            await kube.get(PODS)
        assert len(heard) == 1
        assert caught.value.retry_after_seconds is not None
        assert caught.value.retry_after_seconds <= SHORT, "never longer than a call may take"
        async with asyncio.timeout(10):
            while len(heard) < 2:
                with pytest.raises(Overloaded):
                    await kube.get(POLICY)


@pytest.mark.parametrize("body", [b"<html>no</html>", b"", b"[1]", b'"x"', b"[" * 100_000, b"\xff\xfe"])
async def test_nonsense_is_unavailable(kubeconfig: Path, body: bytes) -> None:
    async with answering(body) as address, at(address, kubeconfig) as kube:
        with pytest.raises(Unavailable, match=r"not JSON|no JSON object"):
            await kube.get(POLICY)


@pytest.mark.parametrize("status", [301, 307, 418, 500, 503])
async def test_any_other_status_is_unavailable(kubeconfig: Path, status: int) -> None:
    assert isinstance(await failed(kubeconfig, status, b"\xffnot json"), Unavailable)


async def test_a_huge_answer_is_cut_off(kubeconfig: Path) -> None:
    block = b" " * (1 << 20)

    async def say(request: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        for _ in range(80):
            writer.write(block)
            await writer.drain()

    async with raw_server(say) as address, at(address, kubeconfig) as kube:
        with pytest.raises(Unavailable, match="more than 67108864 bytes"):
            await kube.get(POLICY)


async def test_a_redirect_is_not_followed_and_the_token_stays(kubeconfig: Path) -> None:
    heard: list[dict[str, str]] = []

    async def hear(head: dict[str, str], body: bytes) -> tuple[int, bytes]:
        heard.append(head)
        return 200, b"{}"

    async with hearing(hear) as elsewhere:
        extra = f"Location: {elsewhere}/\r\n"
        async with answering(b"", status=302, extra=extra) as address, at(address, kubeconfig) as kube:
            with pytest.raises(Unavailable, match="redirects are not followed"):
                await kube.get(POLICY)
    assert heard == []


async def test_the_token_travels_and_no_compressed_answer_is_asked_for(kubeconfig: Path) -> None:
    heard: list[dict[str, str]] = []

    async def hear(head: dict[str, str], body: bytes) -> tuple[int, bytes]:
        heard.append(head)
        return 200, b"{}"

    async with hearing(hear) as address, at(address, kubeconfig) as kube:
        await kube.get(POLICY)

    assert heard[0]["authorization"] == "Bearer secret-token"
    assert heard[0]["accept-encoding"] == "identity"


async def test_a_failed_test_of_a_patch_is_a_conflict(kubeconfig: Path) -> None:
    body = said(422, "the server rejected our request due to an error in our request")
    async with answering(body, status=422) as address, at(address, kubeconfig) as kube:
        with pytest.raises(Conflict, match="written by somebody else"):
            await kube.patch(POLICY, [{"op": "test", "path": "/a", "value": 1}])
        with pytest.raises(Rejected):
            await kube.patch(POLICY, [{"op": "remove", "path": "/a"}])


async def test_what_is_not_there_is_none_to_read_and_nothing_to_patch_or_delete(kubeconfig: Path) -> None:
    async with answering(said(404), status=404) as address, at(address, kubeconfig) as kube:
        assert await kube.get(POLICY) is None
        assert await kube.patch(POLICY, []) is None
        await kube.delete(POLICY)
        assert [item async for item in kube.pages(PODS)] == []


async def test_calls_are_counted_by_verb_and_resource(kubeconfig: Path) -> None:
    calls: list[tuple[str, str]] = []
    async with answering(b"{}") as address:
        place = written(kubeconfig, address)
        async with connect(place, on_call=lambda *call: calls.append(call)) as kube:
            await kube.get(POLICY)
            await kube.replace(f"{POLICY}/status", {})
            await kube.merge(POLICY, {})
            await kube.create("/api/v1/namespaces/x/events", {})

    resource = "kvcachepolicies"
    assert calls == [
        ("get", resource),
        ("update", f"{resource}/status"),
        ("patch", resource),
        ("create", "events"),
    ]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/api/v1/nodes", "list nodes in the cluster"),
        ("/api/v1/namespaces/x", "list namespaces x in the cluster"),
        ("/api/v1/namespaces/x/pods/a/status", "list pods/status a in namespace x"),
        ("/apis/coordination.k8s.io/v1/namespaces/x/leases/l", "list leases l in namespace x"),
        (POLICY, "list kvcachepolicies chat in namespace x"),
    ],
)
def test_a_call_is_named_as_a_role_would_name_it(path: str, words: str) -> None:
    assert str(deed("list", path)) == words


async def test_credentials_that_cannot_be_read_are_the_users_to_mend(tmp_path: Path) -> None:
    for name, text in {"none": None, "garbage": "{", "empty": "", "odd": "contexts: 3\n"}.items():
        path = tmp_path / name
        if text is not None:
            path.write_text(text)
        with pytest.raises(SpecError, match=str(path)):
            async with connect(path):
                pass


async def test_without_a_kubeconfig_a_process_outside_a_cluster_is_told_so() -> None:
    with pytest.raises(SpecError, match=r"in-cluster credentials: cannot be used .*host/port is not set"):
        async with connect(None):
            pass
