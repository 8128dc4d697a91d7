"""A sweep on a Dask cluster: a scheduler and a worker in this process, reached over loopback."""

import socket
from collections.abc import Iterator

import pytest
from distributed import LocalCluster

from kvtune_api.errors import Unavailable
from kvtune_cache.requests import Requests
from kvtune_lab.generator import generate
from kvtune_lab.setups import Grid, Policy
from kvtune_lab.sweep.cluster import check_address, run_on_cluster
from kvtune_lab.sweep.run import run_here
from tests.lab.packed import packed

MANY = Grid(policies=list(Policy), capacities_blocks=[100, 400], ttls_seconds=[10.0, 20.0, 30.0, 40.0])
GRID = Grid(policies=[Policy.LRU, Policy.ARC, Policy.OPT], capacities_blocks=[100, 400])


@pytest.fixture(scope="module")
def trace() -> Requests:
    """200 requests of generated chat."""
    requests = generate(requests_per_second=5.0, seed=1)
    return packed((next(requests) for _ in range(200)), block_tokens=128)


def cluster(workers: int) -> LocalCluster:
    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=False,
        dashboard_address="127.0.0.1:0",
        protocol="tcp",
    )


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the scheduler of a cluster with one worker listens."""
    with cluster(1) as one:
        yield one.scheduler_address


def test_a_cluster_gives_the_rows_that_this_machine_gives(trace: Requests, address: str) -> None:
    setups = GRID.setups()
    here = {row.setup: row for row in run_here(trace, setups, jobs=1)}
    there = {row.setup: row for row in run_on_cluster(address, trace, setups)}
    assert there == here
    assert len(there) == 6


def test_a_scheduler_that_does_not_answer_is_told(trace: Requests) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"tcp://127.0.0.1:{gone.getsockname()[1]}"
    with pytest.raises(Unavailable, match=f"dask: no scheduler answers at {address}"):
        list(run_on_cluster(address, trace, GRID.setups(), answer_seconds=0.5))


@pytest.mark.parametrize(
    "address", ["nowhere", "", "zzz://", "carrier-pigeon://x:1", "tcp://host", "tcp://:1", "tcp://h:1/x"]
)
def test_an_address_of_another_form_is_refused(address: str) -> None:
    with pytest.raises(
        ValueError, match=f"{address!r} is not a scheduler's address, such as tcp://host:8786"
    ):
        check_address(address)


@pytest.mark.parametrize("address", ["tcp://10.0.0.7:8786", "tls://host.example:1", "tcp://[::1]:8786"])
def test_an_address_is_taken(address: str) -> None:
    check_address(address)


def test_an_encrypted_address_without_certificates_is_told(trace: Requests) -> None:
    with pytest.raises(Unavailable, match=r"dask: tls://127.0.0.1:1: needs certificates"):
        list(run_on_cluster("tls://127.0.0.1:1", trace, GRID.setups()))


def test_a_scheduler_that_goes_away_in_the_middle_is_told(trace: Requests) -> None:
    going = cluster(1)
    rows = run_on_cluster(going.scheduler_address, trace, MANY.setups())
    next(rows)
    going.close()

    with pytest.raises(Unavailable, match=r"dask: tcp://127.0.0.1:"):
        list(rows)


def test_a_cluster_without_a_worker_is_told(trace: Requests) -> None:
    with cluster(0) as empty, pytest.raises(Unavailable, match="has no worker"):
        list(run_on_cluster(empty.scheduler_address, trace, GRID.setups()))
