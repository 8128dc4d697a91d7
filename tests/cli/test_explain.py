"""`kvtune explain`."""

import json
from pathlib import Path

import pytest
import typer

from kvtune_api.errors import Unavailable
from kvtune_cache.cache import plain_cache
from kvtune_cache.eviction.names import REUSE_AWARE
from kvtune_cache.requests import serve_all
from kvtune_cache.reuse_aware.persistence import learned
from kvtune_cache.rules import Rules
from kvtune_cli.agent_lessons import learned_by_agent
from kvtune_cli.exits import ExitCode
from kvtune_cli.main import run
from tests.cache.streams import distinct, packed
from tests.cli.test_capacity import Capture, told, trace, write_trace
from tests.cluster.web import Quiet, served

__all__ = ["trace"]
FAST = ["--capacities", "5%,20%"]


def test_tables_for_a_person(trace: Path, capsys: Capture) -> None:
    assert run(["explain", str(trace), *FAST]) == ExitCode.OK
    out = capsys.readouterr().out
    for text in (
        "bound, all classes",
        "OPT",
        "Points over LRU",
        "right 90% of the time",
        "What the policy has",
    ):
        assert text in out
    assert "Most is to be gained at " in out


def test_json_and_plots(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    args = ["--hint-accuracies", "0.75,1", "--json", "-", "--plots", str(tmp_path / "plots")]
    assert run(["explain", str(trace), *FAST, *args]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert set(found["policies"]) == {"LRU", "ReuseAware", "OPT"}
    assert [hint["accuracy"] for hint in found["hints"]] == [0.75, 1.0]
    assert found["learned"]["classes"]
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert names == {"explain-knowable.png", "explain-hints.png", "explain-hazard.png"}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--hint-accuracies", "0.4"], "--hint-accuracies: 0.4 is not within [0.5, 1]"),
        (["--hint-accuracies", "nan"], "--hint-accuracies: nan is not within [0.5, 1]"),
        (["--capacities", "0"], "--capacities: 0 is less than 1 block"),
        (["--capacities", "64GiB"], "--capacities: 64 GiB needs the bytes of a token"),
        (["--sample", "2"], "--sample: sample: 2.0 is not within (0, 1]"),
    ],
)
def test_a_wrong_option_is_named(trace: Path, args: list[str], says: str, capsys: Capture) -> None:
    assert run(["explain", str(trace), *args]) == ExitCode.USAGE
    assert says in told(capsys)


class Telling(Quiet):
    """An agent that tells what its policy has learned."""

    status = 200
    body: object = None

    def get(self) -> None:
        """Answer with the document."""
        assert self.path == "/v1/eviction/learned"
        self.answer(self.status, json.dumps(self.body).encode())


def telling(body: object, status: int = 200) -> type[Telling]:
    """An agent with an answer."""
    return type("Agent", (Telling,), {"body": body, "status": status})


def taught() -> dict[str, object]:
    """What ReuseAware has learned of two sessions that take turns."""
    requests = packed([[0, *range(10 * s + 1, 10 * s + 5)] for s in (1, 2) * 30])
    cache = plain_cache(distinct(requests), REUSE_AWARE)
    serve_all(cache, Rules(REUSE_AWARE, 8), requests, [0] * 60)
    return learned(cache.reuse)


TAUGHT = taught()


def class_of(exposure: float, cluster: float) -> dict[str, object]:
    """One class with such counts."""
    return {"5": {"events": [1.0] * 30, "exposure": [exposure] * 30, "cluster": [cluster, 0.0]}}


def test_an_agent_tells_what_its_policy_has_learned(tmp_path: Path, capsys: Capture) -> None:
    document = taught()
    with served(telling(document)) as port:
        address = f"http://127.0.0.1:{port}"
        assert run(["explain", address, "--plots", str(tmp_path)]) == ExitCode.OK
        assert "What the policy has learned" in capsys.readouterr().out
        assert [path.name for path in tmp_path.iterdir()] == ["explain-hazard.png"]
        assert run(["explain", f"{address}/", "--json", "-"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    kept = document["classes"]
    assert isinstance(kept, dict)
    assert len(found["learned"]["classes"]) == len(kept) > 1


def test_an_agent_and_its_recording_tell_what_it_could_hit(
    trace: Path, tmp_path: Path, capsys: Capture
) -> None:
    args = ["--recording", str(trace), *FAST, "--hint-accuracies", "1", "--json", "-"]
    with served(telling(taught())) as port:
        assert run(["explain", f"http://127.0.0.1:{port}", *args, "--plots", str(tmp_path)]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert set(found["policies"]) == {"LRU", "ReuseAware", "OPT"}
    assert len(found["learned"]["classes"]) > 1
    assert len(list(tmp_path.glob("explain-*.png"))) == 3


def test_a_recording_beside_a_trace_is_refused(trace: Path, capsys: Capture) -> None:
    assert run(["explain", str(trace), "--recording", str(trace)]) == ExitCode.USAGE
    assert "--recording: " in told(capsys)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"reason": "NothingLearned", "message": "LRU learns nothing"}, 404, "LRU learns nothing"),
        ({"version": 0}, 200, "has learned: version: 0 is not 1"),
        ([], 200, "is not what a policy of this version has learned"),
        ({**TAUGHT, "requests": 10**400}, 200, "has learned: requests: is more than 1e+30"),
        ({**TAUGHT, "classes": class_of(1e308, 1.0)}, 200, "classes.5.exposure: is more than 1e+30"),
        ({**TAUGHT, "classes": class_of(1.0, 1e308)}, 200, "classes.5.cluster: is more than 1e+30"),
    ],
)
def test_what_an_agent_does_not_tell_is_said(body: object, status: int, says: str, capsys: Capture) -> None:
    with served(telling(body, status)) as port:
        assert run(["explain", f"http://127.0.0.1:{port}"]) == ExitCode.USAGE
    assert says in told(capsys)


@pytest.mark.parametrize(("status", "body"), [(404, {"reason": "x"}), (404, []), (500, {"reason": "x"})])
def test_an_address_that_is_no_agent_s_is_not_there(status: int, body: object, capsys: Capture) -> None:
    with served(telling(body, status)) as port:
        assert run(["explain", f"http://127.0.0.1:{port}"]) == ExitCode.UNAVAILABLE
    assert f"answered with status {status}" in told(capsys)


@pytest.mark.parametrize("body", [b"[" * 100_000, b"{", b"\xff"])
def test_an_answer_that_is_no_json_is_said(body: bytes, capsys: Capture) -> None:
    class Agent(Quiet):
        def get(self) -> None:
            self.answer(200, body)

    with served(Agent) as port:
        assert run(["explain", f"http://127.0.0.1:{port}"]) == ExitCode.USAGE
    assert "is not what a policy of this version has learned" in told(capsys)


def test_an_answer_that_does_not_end_is_cut_off_by_time_and_by_size(capsys: Capture) -> None:
    class Agent(Quiet):
        def get(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            self.wfile.write(b" " * 1000)
            self.rfile.read(1)

    with served(Agent) as port:
        address = f"http://127.0.0.1:{port}"
        with pytest.raises(Unavailable, match=r"no whole answer in 0\.2 s"):
            learned_by_agent(address, seconds=0.2)
        with pytest.raises(typer.Exit):
            learned_by_agent(address, bytes_max=999)
    assert "the answer is longer than 999 bytes" in told(capsys)


def test_the_scheme_of_an_agent_may_be_in_capitals_and_is_hinted_at(capsys: Capture) -> None:
    assert run(["explain", "HTTP://127.0.0.1:9"]) == ExitCode.UNAVAILABLE
    assert "HTTP://127.0.0.1:9: ConnectError" in told(capsys)
    assert run(["explain", "127.0.0.1:9"]) == ExitCode.USAGE
    assert "127.0.0.1:9: no such file; an agent's address begins with http://" in told(capsys)


def test_an_agent_that_does_not_answer_is_not_there(capsys: Capture) -> None:
    assert run(["explain", "http://127.0.0.1:9"]) == ExitCode.UNAVAILABLE
    assert "http://127.0.0.1:9: ConnectError" in told(capsys)


def test_a_trace_in_no_time_is_refused(tmp_path: Path, capsys: Capture) -> None:
    path = write_trace(tmp_path / "one.jsonl", [[1, 2]])
    assert run(["explain", str(path), *FAST]) == ExitCode.USAGE
    assert "its last half begins and ends at 0 s" in told(capsys)
