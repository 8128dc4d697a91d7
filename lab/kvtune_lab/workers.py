"""Run one function over many arguments in a few processes that get the function and what it holds once.

Called by grid.py, whose traffic is too large to send with every point.
"""

from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Generic, Self, TypeVar

A = TypeVar("A")
B = TypeVar("B")


def _work(function: Callable[[A], B], connection: Connection) -> None:
    """Answer arguments until the other end says None or is gone; an error is an answer too."""
    try:
        while (argument := connection.recv()) is not None:
            try:
                connection.send(function(argument))
            except Exception as error:  # noqa: BLE001  # whatever it is, the caller raises it
                connection.send(error)
    except (EOFError, KeyboardInterrupt, BrokenPipeError):
        return


class Workers(Generic[A, B]):
    """A context of processes; with one process the work is done by the caller's own."""

    def __init__(self, function: Callable[[A], B], processes: int) -> None:
        """Hold the function; raises ValueError for less than one process."""
        if processes < 1:
            raise ValueError(f"processes: {processes} is less than 1")
        self._function = function
        self._count = processes if processes > 1 else 0
        self._processes: list[BaseProcess] = []
        self._idle: list[Connection] = []

    def __enter__(self) -> Self:
        """Spawn the processes."""
        context = get_context("spawn")
        for _ in range(self._count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(self._function, theirs), daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._idle.append(ours)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the processes: at once after an error, else after their last answer."""
        for process in self._processes:
            process.terminate()
            process.join()
            process.close()
        for connection in self._idle:
            connection.close()

    def map(self, arguments: Sequence[A], done: Callable[[], None]) -> list[B]:
        """Return the answers in the order of the arguments; `done` follows each. Raises what one raised."""
        if not self._count:
            return [self._alone(argument, done) for argument in arguments]
        answers: dict[int, B] = {}
        waiting = list(enumerate(arguments))[::-1]
        busy: dict[Connection, int] = {}
        idle = list(self._idle)
        while waiting or busy:
            while waiting and idle:
                number, argument = waiting.pop()
                connection = idle.pop()
                connection.send(argument)
                busy[connection] = number
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                answers[busy.pop(ready)] = self._answer(ready)
                idle.append(ready)
                done()
        return [answers[number] for number in range(len(arguments))]

    def _alone(self, argument: A, done: Callable[[], None]) -> B:
        answer = self._function(argument)
        done()
        return answer

    def _answer(self, connection: Connection) -> B:
        answer: B | Exception = connection.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer
