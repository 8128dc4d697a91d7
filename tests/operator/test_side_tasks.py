"""Tasks beside the policies' own are begun again after a bug, and /healthz fails meanwhile."""

import asyncio
import logging

import pytest

from kvtune_operator.side_tasks import lasting


class World:
    """Work that fails so often before it lasts, and what stood in `down` during each pause."""

    def __init__(self, failures: int, error: Exception | None) -> None:
        self.left = failures
        self.error = error
        self.down: set[str] = set()
        self.pauses: list[tuple[float, set[str]]] = []
        self.lasts = asyncio.Event()

    async def work(self) -> None:
        if self.left:
            self.left -= 1
            if self.error is not None:
                raise self.error
            return
        self.lasts.set()
        await asyncio.Event().wait()

    async def sleep(self, seconds: float) -> None:
        self.pauses.append((seconds, set(self.down)))
        await asyncio.sleep(0)


@pytest.mark.parametrize("error", [AttributeError("no such thing"), None])
async def test_work_that_ends_is_begun_again_ever_later_and_is_down_meanwhile(
    error: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(6, error)
    with caplog.at_level(logging.ERROR):
        task = asyncio.create_task(lasting("settings", world.work, sleep=world.sleep, down=world.down))
        await world.lasts.wait()

    assert world.pauses == [(seconds, {"settings"}) for seconds in (1.0, 2.0, 5.0, 10.0, 30.0, 30.0)]
    assert world.down == set()
    assert vars(caplog.records[0])["task"] == "settings"
    assert (caplog.records[0].exc_info is None) is (error is None)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
