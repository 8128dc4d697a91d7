"""Run the setups of a sweep on a Dask cluster that is there already, rows as they come.

Called by `kvtune sweep --dask ADDRESS`; needs the extra `dask` here and kvtune in the same version on every
worker. The trace is sent to each worker once; a task is all capacities of one policy.

Errors: Unavailable where the extra, the scheduler, a worker or the same code on one is not there (any more).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import TYPE_CHECKING

from kvtune_api.errors import Unavailable
from kvtune_cache.requests import Requests
from kvtune_lab.setups import Setup
from kvtune_lab.simulate import Simulator, Way, way_for
from kvtune_lab.simulation import Simulation
from kvtune_lab.sweep.origin import policies_digest

if TYPE_CHECKING:
    from distributed import Client

ANSWER_SECONDS = 10.0
"""How long to wait for a scheduler."""

ADDRESS = re.compile(
    r"(tcp|tls|ws|wss|ucx)://[^/:\s]+:\d{1,5}|(tcp|tls|ws|wss|ucx)://\[[0-9a-fA-F:]+\]:\d{1,5}"
)


def check_address(address: str) -> None:
    """Raise ValueError for what is no scheduler's address: a client would try it for long."""
    if ADDRESS.fullmatch(address) is None:
        raise ValueError(f"{address!r} is not a scheduler's address, such as tcp://host:8786")


def run_on_cluster(
    address: str, requests: Requests, setups: Sequence[Setup], *, answer_seconds: float = ANSWER_SECONDS
) -> Iterator[Simulation]:
    """Simulate all setups on the workers; what is still running ends with the caller."""
    try:
        from distributed import KilledWorker, as_completed
    except ModuleNotFoundError as error:
        raise Unavailable("dask: needs the extra `dask` (pip install 'kvtune[dask]')") from error
    _check_certificates(address)
    way = way_for(len(requests.blocks) * len(setups))
    with _client(address, answer_seconds) as client:
        try:
            _check_workers(client, address)
            everywhere = client.scatter(requests, broadcast=True, hash=False)
            tasks = [
                client.submit(simulate_all, everywhere, batch, way, pure=False) for batch in _batches(setups)
            ]
            for task in as_completed(tasks, loop=client.loop):  # type: ignore[no-untyped-call]  # it has no types
                yield from task.result()
        except CancelledError as error:
            raise Unavailable(f"dask: {address}: the scheduler or all workers have gone away") from error
        except (KilledWorker, OSError, ImportError) as error:
            raise Unavailable(f"dask: {address}: {error}") from error


def simulate_all(requests: Requests, setups: Sequence[Setup], way: Way) -> list[Simulation]:
    """Simulate some setups on one trace, in the worker."""
    simulator = Simulator(requests, way)
    return [simulator.simulate(setup) for setup in setups]


def _batches(setups: Sequence[Setup]) -> list[list[Setup]]:
    """Setups that differ in capacity alone, together: they share what is prepared and compiled."""
    found: dict[Setup, list[Setup]] = {}
    for setup in setups:
        found.setdefault(replace(setup, capacity_blocks=1), []).append(setup)
    return list(found.values())


def _client(address: str, answer_seconds: float) -> "Client":
    from distributed import Client

    try:
        return Client(address, timeout=answer_seconds, set_as_default=False)  # type: ignore[no-untyped-call]  # as above
    except (OSError, ValueError) as error:
        raise Unavailable(f"dask: no scheduler answers at {address}: {error}") from error


def _check_certificates(address: str) -> None:
    """Refuse an encrypted address without certificates, at which a client fails with a traceback."""
    from distributed.security import Security

    if address.startswith("tls://"):
        asked: Mapping[str, object] = Security().get_connection_args("client")  # type: ignore[no-untyped-call]
        if asked["ssl_context"] is None:
            raise Unavailable(
                f"dask: {address}: needs certificates: distributed.comm.tls of Dask's settings has none"
            )


def _check_workers(client: "Client", address: str) -> None:
    """Refuse a cluster that has no worker, or one whose policies are not ours."""
    theirs = client.run(policies_digest)
    if not theirs:
        raise Unavailable(f"dask: {address} has no worker")
    ours = policies_digest()
    for worker, digest in theirs.items():
        if digest != ours:
            raise Unavailable(f"dask: {worker}: policies {digest}, not {ours}: another version of kvtune")
