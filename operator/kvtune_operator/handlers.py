"""Watch policies with kopf: nothing here but saying that one was seen or is gone.

kopf runs in a thread and an event loop of its own: it cancels every task of its loop when it ends, takes the
process's signals in a main thread, and holds requests for long while the API server hangs. Without finalizer,
annotation, peering or events of its own; decides nothing.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import kopf

from kvtune_api.names import GROUP, POLICIES, VERSION
from kvtune_operator.house import Key
from kvtune_operator.policy_tasks import Mark

log = logging.getLogger(__name__)

BACKOFF_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
CREDENTIALS_SECONDS = 300
"""kopf asks for credentials again after this long: tokens of pods are replaced."""

THREAD_SECONDS = 5.0
"""A watch that does not end within this is left behind: its thread does not keep the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Where the API server is and how to log in, as kopf needs it."""

    server: str
    ca_path: str | None
    insecure: bool
    token: str | None
    """The whole value of the Authorization header."""

    certificate_path: str | None
    private_key_path: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """What kopf is told, and whom it tells."""

    login: Callable[[], Awaitable[Login]]
    """Called in kopf's own loop."""

    namespaces: tuple[str, ...]
    """None: all."""

    seen: Callable[[Key, Mark], None]
    """Called in the loop that `watch` runs in."""

    gone: Callable[[Key], None]
    unix_seconds: Callable[[], float]


async def watch(watcher: Watcher, sleep: Callable[[float], Awaitable[None]]) -> None:
    """Watch for ever; what ends kopf is logged, and it is started again."""
    failures = 0
    while True:
        trouble = await _watched(watcher)
        log.error("the watch on policies ended, starting it again", extra={"error": trouble})
        await sleep(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)])
        failures += 1


async def _watched(watcher: Watcher) -> str:
    """Run kopf until it ends; say why. Ends it when cancelled."""
    loop, stop = asyncio.get_running_loop(), threading.Event()
    ended: asyncio.Future[str] = loop.create_future()

    def end(trouble: str) -> None:
        if not ended.done():
            ended.set_result(trouble)

    def tell(trouble: str) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(end, trouble)

    def live() -> None:
        own = asyncio.new_event_loop()
        own.set_exception_handler(_left_behind)
        try:
            own.run_until_complete(_operator(watcher, loop, stop, tell))
        except Exception as error:  # whatever ends kopf is told, and it is started again
            log.debug("kopf ended", exc_info=error)
            tell(_words(error))
        finally:
            own.close()  # whatever hangs in it is dropped: kopf ends its tasks without a bound
            tell("no error")

    thread = threading.Thread(target=live, name="kopf", daemon=True)
    thread.start()
    try:
        return await asyncio.shield(ended)
    finally:
        stop.set()
        await asyncio.to_thread(thread.join, THREAD_SECONDS)


async def _operator(
    watcher: Watcher, loop: asyncio.AbstractEventLoop, stop: threading.Event, tell: Callable[[str], None]
) -> None:
    """Run kopf's tasks until the first of them ends; say at once why, for the end of the others may hang.

    Tried: when the first look at the API's resources fails, kopf stops for ever in the middle of its end.
    """
    tasks = await kopf.spawn_tasks(
        registry=registry(watcher, loop),
        settings=settings(),
        standalone=True,
        clusterwide=not watcher.namespaces,
        namespaces=watcher.namespaces,
        stop_flag=stop,
    )
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    failed = [error for task in done if not task.cancelled() and (error := task.exception()) is not None]
    tell(_words(failed[0]) if failed else "no error")
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=THREAD_SECONDS)


def _words(error: BaseException) -> str:
    """What an error says; of an answer of the API server its message alone."""
    return f"{type(error).__name__}: {error.args[0] if error.args else error}"


def _left_behind(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Hear of tasks that were dropped when kopf's loop was closed."""
    log.debug("kopf left something behind", extra={"what": str(context.get("message"))})


def settings() -> kopf.OperatorSettings:
    """Settings under which kopf only lists and watches, and never hangs for long."""
    found = kopf.OperatorSettings()
    found.peering.standalone = True
    found.scanning.disabled = True
    found.posting.enabled = False
    found.process.ultimate_exiting_timeout = None
    found.networking.request_timeout = 10.0
    found.networking.connect_timeout = 10.0
    found.networking.error_backoffs = (1.0, 2.0)
    found.watching.connect_timeout = 10.0
    found.watching.server_timeout = 240  # a whole number: the API server refuses 240.0
    return found


def registry(watcher: Watcher, loop: asyncio.AbstractEventLoop) -> kopf.OperatorRegistry:
    """Handlers of our own registry: a login, and one for every change of a policy."""
    found = kopf.OperatorRegistry()

    async def login(**_: Any) -> kopf.ConnectionInfo:
        return _connection(await watcher.login(), watcher.unix_seconds())

    async def changed(type: str | None, body: Mapping[str, Any], **_: Any) -> None:
        key = (str(body["metadata"]["namespace"]), str(body["metadata"]["name"]))
        if type == "DELETED":
            loop.call_soon_threadsafe(watcher.gone, key)
        else:
            loop.call_soon_threadsafe(watcher.seen, key, mark_of(body["metadata"]))

    kopf.on.login(id="kvtune", registry=found)(login)
    kopf.on.event(GROUP, VERSION, POLICIES, id="kvtune", registry=found)(changed)
    return found


def mark_of(metadata: Mapping[str, Any]) -> Mark:
    """What of a policy calls for a step at once: its spec, its deletion, our annotations."""
    annotations = metadata.get("annotations") or {}
    wishes = sorted((name, str(text)) for name, text in annotations.items() if name.startswith(f"{GROUP}/"))
    return Mark(
        uid=str(metadata["uid"]),
        generation=int(metadata.get("generation") or 0),
        deleted=metadata.get("deletionTimestamp") is not None,
        wishes=tuple(wishes),
    )


def _connection(login: Login, now: float) -> kopf.ConnectionInfo:
    scheme, _, token = (login.token or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=login.server,
        ca_path=login.ca_path,
        insecure=login.insecure,
        scheme=scheme or None,
        token=token or None,
        certificate_path=login.certificate_path,
        private_key_path=login.private_key_path,
        expiration=datetime.fromtimestamp(now + CREDENTIALS_SECONDS, UTC),
    )
