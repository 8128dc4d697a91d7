"""Lists and watches of an API server that grow too old, are cut off, or are nonsense."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kvtune_api.errors import Unavailable
from kvtune_operator.adapters.kube import Kube
from kvtune_operator.adapters.kube_errors import Gone
from tests.fakes.servers import answering, raw_server
from tests.operator.api_server_answers import PODS, SHORT, at, item, said


async def test_a_list_that_grows_too_old_between_pages_starts_anew_and_repeats_nothing(
    kubeconfig: Path,
) -> None:
    answers: Iterator[tuple[dict[str, Any], str]] = iter(
        [
            ({"items": [item("a"), item("b")], "metadata": {"resourceVersion": "5", "continue": "x"}}, ""),
            ({"kind": "Status", "code": 410, "message": "too old"}, "x"),
            ({"items": [item("a"), item("c")], "metadata": {"resourceVersion": "9", "continue": "y"}}, ""),
            ({"items": [item("d")], "metadata": {"resourceVersion": "9"}}, "y"),
        ]
    )

    async def say(request: str, writer: asyncio.StreamWriter) -> None:
        answer, asked = next(answers)
        query = parse_qs(urlsplit(request.split()[1]).query)
        assert query.get("continue", [""]) == [asked], request
        assert query["limit"] == ["2"]
        body = json.dumps(answer).encode()
        head = f"HTTP/1.1 {answer.get('code', 200)} X\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)

    async with raw_server(say) as address, at(address, kubeconfig) as kube:
        names = [found["metadata"]["name"] async for found in kube.pages(PODS, limit=2)]

    assert names == ["a", "b", "c", "d"]


async def test_a_list_that_is_always_too_old_gives_up(kubeconfig: Path) -> None:
    async with answering(said(410), status=410) as address, at(address, kubeconfig) as kube:
        with pytest.raises(Gone):
            await kube.listed(PODS)
        with pytest.raises(Gone):
            [found async for found in kube.pages(PODS)]


async def test_an_empty_list_may_say_null(kubeconfig: Path) -> None:
    body = b'{"items": null, "metadata": {"resourceVersion": "7"}}'
    async with answering(body) as address, at(address, kubeconfig) as kube:
        assert await kube.listed(PODS) == ((), "7")


async def test_what_is_no_list_is_unavailable(kubeconfig: Path) -> None:
    async with answering(b'{"kind": "Pod"}') as address, at(address, kubeconfig) as kube:
        with pytest.raises(Unavailable, match="is no list"):
            await kube.listed(PODS)


def change(kind: str, seen: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": seen}).encode() + b"\n"


async def watched(kube: Kube) -> list[tuple[str, str]]:
    changes = kube.watch(PODS, resource_version="5", seconds=SHORT)
    return [(kind, seen["metadata"]["name"]) async for kind, seen in changes]


async def test_a_watch_gives_changes_until_the_server_ends_it(kubeconfig: Path) -> None:
    body = change("ADDED", item("a")) + change("BOOKMARK", item("b")) + change("DELETED", item("a"))
    async with answering(body) as address, at(address, kubeconfig) as kube:
        assert await watched(kube) == [("ADDED", "a"), ("BOOKMARK", "b"), ("DELETED", "a")]


async def test_a_watch_from_an_old_version_is_gone(kubeconfig: Path) -> None:
    body = change("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})
    async with answering(body) as address, at(address, kubeconfig) as kube:
        with pytest.raises(Gone, match="watch pods in namespace x: HTTP 410: too old resource version"):
            await watched(kube)


async def test_a_watch_whose_connection_is_cut_without_a_word_ends(kubeconfig: Path) -> None:
    never = asyncio.Event()

    async def say(request: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        writer.write(change("ADDED", item("a")))
        await writer.drain()
        await never.wait()

    seen: list[str] = []
    async with raw_server(say) as address, at(address, kubeconfig, timeout_seconds=SHORT) as kube:
        changes = kube.watch(PODS, resource_version="5", seconds=SHORT)
        with pytest.raises(Unavailable, match=r"watch pods in namespace x: no whole answer within 0\.6 s"):
            await seen_until_the_end(changes, seen)
        never.set()
    assert seen == ["ADDED"]


async def seen_until_the_end(changes: AsyncIterator[tuple[str, Any]], seen: list[str]) -> None:
    async for kind, _ in changes:
        seen.append(kind)


@pytest.mark.parametrize("body", [b"nonsense\n", b"{}\n", b'{"type": "ADDED", "object": 3}\n'])
async def test_a_watch_of_nonsense_is_unavailable(kubeconfig: Path, body: bytes) -> None:
    async with answering(body) as address, at(address, kubeconfig) as kube:
        with pytest.raises(Unavailable):
            await watched(kube)
