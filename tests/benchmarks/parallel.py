"""Run one function over many arguments in a few processes, showing how far it has come."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")

SHOW_EVERY_SECONDS = 10.0


def results(
    function: Callable[[A], B], arguments: Sequence[A], *, processes: int, name: str
) -> Iterator[tuple[A, B]]:
    """Yield each argument with its result, as they come. Raises what the function raised."""
    started = shown = time.monotonic()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(function, argument): argument for argument in arguments}
        try:
            for done, future in enumerate(as_completed(waiting), start=1):
                yield waiting[future], future.result()
                if time.monotonic() - shown > SHOW_EVERY_SECONDS or done == len(waiting):
                    shown = time.monotonic()
                    told(f"{name}: {done} of {len(waiting)} ({shown - started:.0f} s)")
        finally:
            pool.shutdown(cancel_futures=True)


def told(text: str) -> None:
    """Say something beside the tables."""
    print(text, file=sys.stderr, flush=True)
