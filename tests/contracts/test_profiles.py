"""What Pyroscope's documented API answers, as stalls of agents; and what happens when it does not answer
so."""

import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_api.codec import parse
from kvtune_api.errors import Unavailable
from kvtune_api.sources import PyroscopeSource
from kvtune_operator.adapters.credentials import Credentials, Provider, no_credentials
from kvtune_operator.adapters.flamebearer import Frames, stalls
from kvtune_operator.adapters.pyroscope import PyroscopeProfiles
from kvtune_operator.sources import EVICT_FRAMES, LOAD_FRAMES, STORE_FRAMES, resolved_profiles
from kvtune_tuner.model import Stalls
from kvtune_tuner.sli import Missing, MissingReason
from tests.fakes.pyroscope import FakePyroscope, flamebearer
from tests.fakes.servers import answering, app_server, stuck

FRAMES = Frames(load=LOAD_FRAMES, store=STORE_FRAMES, evict=EVICT_FRAMES)
SECRET = "swordfish-7"
Opened = Callable[..., PyroscopeProfiles]


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    async with aiohttp.ClientSession(trust_env=False) as session:

        def open_at(address: str, credentials: Provider = no_credentials, **source: Any) -> PyroscopeProfiles:
            asked = parse(PyroscopeSource, {"address": address, "timeout": "2s", **source})
            settled = resolved_profiles(asked, PyroscopeSource())
            return PyroscopeProfiles(settled, lambda name: name, "ai", credentials, lambda: session)

        yield open_at


def of(stacks: dict[tuple[str, ...], int]) -> Stalls | Missing:
    return stalls(json.dumps(flamebearer(stacks)).encode(), FRAMES)


def test_each_sample_is_counted_once_by_the_first_of_evict_store_load_in_its_stack() -> None:
    found = of(
        {
            ("main", "step"): 50,
            ("main", "step", "start_load_kv"): 5,
            ("main", "step", "start_load_kv", "copy_"): 10,
            ("main", "step", "prepare_store", "lru.evict", "pop"): 7,
            ("main", "step", "prepare_store", "insert"): 3,
            ("main", "prepare_load", "wait_for_save"): 2,
            ("idle",): 23,
        }
    )

    assert found == Stalls(load=15, store=5, evict=7, total=100)


def test_the_documented_example_is_read() -> None:
    example = {
        "version": 1,
        "flamebearer": {
            "names": [
                "total",
                "runtime.main",
                "main.slowFunction",
                "main.work",
                "main.main",
                "main.fastFunction",
            ],
            "levels": [
                [0, 988, 0, 0],
                [0, 988, 0, 1],
                [0, 214, 0, 5, 0, 3, 2, 4, 0, 771, 0, 2],
                [0, 214, 214, 3, 2, 1, 1, 5, 0, 771, 771, 3],
            ],
            "numTicks": 988,
            "maxSelf": 771,
        },
        "metadata": {"format": "single", "sampleRate": 100, "spyName": "gospy", "units": "samples"},
    }
    frames = Frames(load=("slowFunction",), store=("fastFunction",), evict=("nothing",))

    found = stalls(json.dumps(example).encode(), frames)

    assert found == Stalls(load=771, store=215, evict=0, total=988)


def test_no_samples_are_no_data_and_not_zero() -> None:
    found = of({})

    assert isinstance(found, Missing)
    assert found.reason is MissingReason.NO_DATA


def test_too_many_stacks_that_were_cut_off_say_little() -> None:
    found = of({("main", "step"): 90, ("main", "other"): 10})

    assert isinstance(found, Missing)
    assert found.reason is MissingReason.RESOLUTION_INSUFFICIENT


def _bars(*levels: list[int], form: str = "single") -> bytes:
    bars = {"names": ["total", "a"], "levels": levels}
    return json.dumps({"flamebearer": bars, "metadata": {"format": form}}).encode()


BROKEN = {
    "a page": b"<html>",
    "null": b"null",
    "no levels": b'{"flamebearer":{"names":[]}}',
    "half a bar": _bars([0, 10, 0]),
    "no such name": _bars([0, 10, 10, 7]),
    "a bar beside its parent": _bars([0, 10, 0, 0], [5, 10, 10, 1]),
    "more self than total": _bars([0, 10, 11, 0]),
    "negative": _bars([0, 10, -1, 0]),
    "a difference of two": _bars([0, 10, 0, 0], form="double"),
    "NaN": b'{"flamebearer":{"names":["total"],"levels":[[0,NaN,0,0]]}}',
}


@pytest.mark.parametrize("case", sorted(BROKEN))
def test_what_is_no_flamebearer_is_missing(case: str) -> None:
    found = stalls(BROKEN[case], FRAMES)

    assert isinstance(found, Missing)
    assert found.reason is MissingReason.INCONSISTENT


@given(
    st.dictionaries(
        st.lists(st.sampled_from(["a", "evict", "store_blocks", "load_blocks", "b"]), max_size=5).map(tuple),
        st.integers(1, 10**12),
        max_size=20,
    )
)
def test_any_stacks_add_up(stacks: dict[tuple[str, ...], int]) -> None:
    found = of(stacks)
    wanted = {"evict": 0, "store_blocks": 0, "load_blocks": 0}
    for stack, count in stacks.items():
        for name in wanted:
            if name in stack:
                wanted[name] += count
                break

    if not stacks:
        assert isinstance(found, Missing)
    else:
        assert found == Stalls(
            load=wanted["load_blocks"],
            store=wanted["store_blocks"],
            evict=wanted["evict"],
            total=sum(stacks.values()),
        )


async def test_every_agents_samples_of_the_window_are_its_own(opened: Opened) -> None:
    fake = FakePyroscope()
    fake.add(100.0, {("step", "evict"): 10, ("step",): 90}, namespace="ai", pod="chat-1")
    fake.add(110.0, {("step", "start_load_kv"): 30, ("step",): 70}, namespace="ai", pod="chat-1")
    fake.add(200.0, {("step", "evict"): 99}, namespace="ai", pod="chat-1")
    fake.add(105.0, {("step",): 50}, namespace="ai", pod="chat-2")
    fake.add(105.0, {("step", "evict"): 50}, namespace="other", pod="chat-2")
    async with app_server(fake.app()) as address:
        found = await opened(address).stalls(["chat-1", "chat-2", "chat-3"], 100.0, 120.0)

    assert found["chat-1"] == Stalls(load=30, store=0, evict=10, total=200)
    assert found["chat-2"] == Stalls(load=0, store=0, evict=0, total=50)
    none = found["chat-3"]
    assert isinstance(none, Missing)
    assert none.reason is MissingReason.NO_DATA
    assert 'process_cpu:cpu:nanoseconds:cpu:nanoseconds{namespace="ai",pod="chat-3"}' in none.message
    assert "from 100 until 120" in none.message


async def test_a_window_that_is_known_is_not_asked_for_again(opened: Opened) -> None:
    fake = FakePyroscope()
    fake.add(100.0, {("step",): 1}, namespace="ai", pod="chat-1")
    async with app_server(fake.app()) as address:
        profiles = opened(address)
        first = await profiles.stalls(["chat-1"], 100.0, 120.0)
        again = await profiles.stalls(["chat-1"], 100.0, 120.0)

    assert first == again
    assert len(fake.queries) == 1


async def test_values_are_escaped_and_credentials_are_sent(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def credentials() -> Credentials | None:
        return Credentials(headers={"Authorization": f"Bearer {SECRET}"})

    fake = FakePyroscope()
    fake.add(100.0, {("step",): 1}, namespace="ai", pod="chat-1", service='a "b"\\')
    async with app_server(fake.app()) as address:
        profiles = opened(address, credentials, matchers={"service": 'a "b"\\'})
        found = await profiles.stalls(["chat-1"], 100.0, 120.0)

    assert isinstance(found["chat-1"], Stalls)
    assert fake.headers[0]["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in caplog.text + str(found)


ANSWERS = {
    "401": (401, b"who are you", "HTTP 401 who are you"),
    "moved": (302, b"", "HTTP 302"),
    "overloaded": (503, b"busy", "HTTP 503 busy"),
}


@pytest.mark.parametrize("case", sorted(ANSWERS))
async def test_another_answer_makes_all_unavailable(opened: Opened, case: str) -> None:
    status, body, expected = ANSWERS[case]
    async with answering(body, status=status) as address:
        with pytest.raises(Unavailable, match=expected) as caught:
            await opened(address).stalls(["chat-1", "chat-2"], 100.0, 120.0)

    assert "/pyroscope/render" in str(caught.value)
    assert "pod=" in str(caught.value)


async def test_nobody_listens(opened: Opened) -> None:
    with pytest.raises(Unavailable, match="cannot connect"):
        await opened("http://127.0.0.1:1").stalls(["chat-1"], 100.0, 120.0)


async def test_a_hundred_agents_wait_for_one_timeout(opened: Opened) -> None:
    async with stuck() as address:
        profiles = opened(address, timeout="300ms")
        with pytest.raises(Unavailable, match=r"no whole answer within 0\.3 s"):
            await profiles.stalls([f"chat-{number}" for number in range(100)], 100.0, 120.0)


async def test_a_web_page_is_missing(opened: Opened) -> None:
    async with answering(b"<html>", content_type="text/html") as address:
        found = (await opened(address).stalls(["chat-1"], 100.0, 120.0))["chat-1"]

    assert isinstance(found, Missing)
    assert found.reason is MissingReason.INCONSISTENT
