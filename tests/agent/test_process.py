"""A real agent process on loopback: start, push, kill -9, start again, stop; and what a bad start says."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from kvtune_agent.exits import ExitCode
from kvtune_agent.serve import bound_socket
from kvtune_api.codec import parse_json
from kvtune_api.knobs import EvictionPolicy
from kvtune_api.wire import Report, Role, Running
from tests.agent.samples import BETTER, START, TOKEN, WRITE, push_body, settings

KNOBS = ("--cache-ttl", "30s", "--eviction-ratio", "0.3", "--host-memory", "57Gi", "--eviction-policy", "LRU")


def command(folder: Path, *extra: str, own_policy: bool = False) -> list[str]:
    token_file = folder / "token"
    token_file.write_text(TOKEN)
    token_file.chmod(0o600)
    files = ("--state-dir", str(folder / "state"), "--token-file", str(token_file))
    return [
        sys.executable,
        "-m",
        "kvtune_agent",
        "--name",
        "a1",
        *files,
        *(KNOBS[:-2] if own_policy else KNOBS),
        *extra,
    ]


@contextmanager
def running_agent(
    folder: Path, *extra: str, own_policy: bool = False
) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """An agent process and a client of it, once it says that it listens."""
    with (
        open(folder / "stderr", "w", encoding="utf-8") as errors,
        subprocess.Popen(
            command(folder, *extra, own_policy=own_policy), stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            assert said.startswith("kvtune agent a1 listens on http://127.0.0.1:"), said
            with httpx.Client(base_url=said.split()[-1], timeout=30) as client:
                yield process, client
        finally:
            process.kill()


def running_of(client: httpx.Client) -> Running:
    return parse_json(Running, client.get("/v1/config").content)


def test_without_a_policy_of_its_own_it_runs_reuse_aware(tmp_path: Path) -> None:
    with running_agent(tmp_path, own_policy=True) as (_, client):
        assert running_of(client).config.eviction_policy is EvictionPolicy.REUSE_AWARE


def test_after_kill_9_the_incumbent_is_there_again_and_the_fence_holds(tmp_path: Path) -> None:
    with running_agent(tmp_path) as (process, client):
        incumbent = push_body(role="incumbent", token=5)
        assert client.put("/v1/config", json=incumbent, headers=WRITE).status_code == 200
        candidate = push_body(token=5, generation=2, config={"cacheTTL": "240s"})
        assert client.put("/v1/config", json=candidate, headers=WRITE).status_code == 200
        assert running_of(client).role is Role.CANDIDATE
        assert client.put("/v1/config", json=push_body(token=9)).status_code == 401
        started_at = parse_json(Report, client.get("/v1/report").content).started_at
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=30) == -signal.SIGKILL

    with running_agent(tmp_path) as (process, client):
        told = running_of(client)
        assert (told.role, told.config, told.generation) == (Role.INCUMBENT, BETTER, 2)
        assert parse_json(Report, client.get("/v1/report").content).started_at != started_at
        stale = client.put("/v1/config", json=push_body(token=4), headers=WRITE)
        assert (stale.status_code, stale.json()["reason"]) == (409, "StaleToken")
        assert (tmp_path / "state" / "port").read_text().strip() == str(client.base_url.port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == ExitCode.OK

    assert (tmp_path / "state" / "incumbent.json").exists()


def test_a_served_agent_takes_traffic_on_its_scaled_clock_and_lets_a_lease_lapse(tmp_path: Path) -> None:
    origin = 1_700_000_000
    with running_agent(tmp_path, "--origin", str(origin), "--speed", "2") as (process, client):
        body = {
            "until": origin,
            "requests": [[origin - 7, 1, 256, 1, [1, 2]], [origin - 6, 1, 256, 1, [1, 2]]],
        }
        assert client.post("/v1/replay", json=body, headers=WRITE).json()["served"] == 2
        report = parse_json(Report, client.get("/v1/report", params={"at": origin - 5}).content)
        assert report.counters is not None
        assert report.counters.hit_tokens == 256
        assert client.get("/readyz").status_code == 200
        assert "vllm:prompt_tokens_total" in client.get("/metrics").text

        client.put("/v1/config", json=push_body(leaseSeconds=0.2), headers=WRITE)
        while (told := running_of(client)).role is Role.CANDIDATE:
            assert process.poll() is None
        assert (told.config, told.lease_lapses) == (START, 1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == ExitCode.OK


def test_a_client_that_hangs_up_in_the_middle_of_a_body_leaves_no_traceback(tmp_path: Path) -> None:
    with running_agent(tmp_path) as (process, client):
        address = (client.base_url.host, client.base_url.port)
        for path in ("PUT /v1/config", "POST /v1/replay"):
            with socket.create_connection(address) as raw:
                head = f"{path} HTTP/1.1\r\nhost: agent\r\nauthorization: Bearer {TOKEN}\r\n"
                raw.sendall(head.encode() + b"content-length: 999\r\nexpect: 100-continue\r\n\r\n")
                assert raw.recv(100).startswith(b"HTTP/1.1 100"), "the body is being read"
        assert client.get("/healthz").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == ExitCode.OK

    said = (tmp_path / "stderr").read_text()
    assert "Traceback" not in said
    assert "Exception" not in said


def refused_start(folder: Path, *extra: str) -> tuple[int, str]:
    done = subprocess.run(
        command(folder, *extra), capture_output=True, text=True, timeout=60, start_new_session=True
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_a_port_in_use_is_one_clear_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, said = refused_start(tmp_path, "--port", str(port))

    assert code == ExitCode.PORT
    assert f"kvtune agent a1: 127.0.0.1 port {port} cannot be listened on: Address already in use" in said


def test_a_corrupt_state_file_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "incumbent.json").write_text('{\n"version": 1,\n')

    code, said = refused_start(tmp_path)

    assert code == ExitCode.STATE_CORRUPT
    assert "incumbent.json line 3: " in said


def test_a_state_directory_in_use_is_one_clear_sentence(tmp_path: Path) -> None:
    with running_agent(tmp_path):
        code, said = refused_start(tmp_path)

    assert code == ExitCode.STATE_DIR
    assert "belongs to another running agent" in said


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (("--cache-ttl", "30"), "config.cacheTTL: '30' is not a duration"),
        (("--host-memory", "1Mi"), "less than one block"),
        (("--speed", "0"), "speed: 0.0 is not within"),
    ],
)
def test_a_bad_setting_is_one_clear_sentence(tmp_path: Path, extra: tuple[str, ...], words: str) -> None:
    code, said = refused_start(tmp_path, *extra)

    assert code == ExitCode.USAGE
    assert words in said


def test_answers_are_not_held_back_by_nagle_s_algorithm(tmp_path: Path) -> None:
    with bound_socket(settings(tmp_path)) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP, "asyncio sets TCP_NODELAY only then"


def test_a_state_directory_that_cannot_be_used_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")

    code, said = refused_start(tmp_path)

    assert code == ExitCode.STATE_DIR
    assert "state cannot be used: File exists" in said
