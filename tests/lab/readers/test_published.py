"""The published traces as they are read: sizes, times, sessions, kinds, chains."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kvtune_lab.readers.arrivals import load_azure
from kvtune_lab.readers.load import load, load_arrivals
from kvtune_lab.readers.loaded import Arrivals, ClientRates, Format
from kvtune_lab.readers.source import Source


@pytest.mark.parametrize(
    ("name", "format", "requests", "references", "distinct"),
    [
        ("mooncake_conversation_trace.jsonl.gz", Format.MOONCAKE, 12_031, 288_500, 182_790),
        ("mooncake_synthetic_trace.jsonl.gz", Format.MOONCAKE, 3_993, 121_877, 43_924),
        ("ragpulse_0_trace.jsonl.gz", Format.RAGPULSE, 7_106, 71_583, 58_727),
    ],
)
def test_requests_have_their_known_numbers(
    traces: Path, name: str, format: Format, requests: int, references: int, distinct: int
) -> None:
    loaded = load(traces / name)
    assert loaded.format is format
    assert len(loaded.requests.times) == requests == len(loaded.requests.starts) - 1
    assert len(loaded.requests.blocks) == references == loaded.requests.starts[-1]
    assert loaded.distinct_blocks == distinct
    assert loaded.requests.times[0] == 0
    assert np.all(np.diff(np.asarray(loaded.requests.times)) >= 0)


def test_agent_sessions_are_expanded_and_laid_over_a_day(traces: Path) -> None:
    loaded = load(traces / "agentic_dev_requests.jsonl.gz")
    requests = loaded.requests
    assert (len(requests.times), len(requests.blocks), loaded.distinct_blocks) == (
        11_297,
        26_237_769,
        1_191_186,
    )
    assert loaded.sessions is not None and int(loaded.sessions.max()) == 240 - 1
    assert np.bincount(np.asarray(requests.kinds))[1:].tolist() == [8_600, 868, 1_708, 111, 10]
    assert [np.asarray(part).dtype for part in requests] == [
        np.int64,
        np.int32,
        np.int32,
        np.float64,
        np.int32,
        np.uint8,
        np.float64,
    ]
    assert loaded.notes[-1].startswith("session starts from agentic_dev_session_starts_24h.json.gz")


def test_26_million_references_take_less_than_a_gibibyte(traces: Path) -> None:
    # Not by getrusage, whose peak is also that of the process that this one was forked from.
    code = (
        "import sys; from pathlib import Path; from kvtune_lab.readers.load import load; "
        "load(Path(sys.argv[1])); "
        "print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])"
    )
    args = [sys.executable, "-c", code, str(traces / "agentic_dev_requests.jsonl.gz")]
    done = subprocess.run(args, capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) < 2**20  # KiB


def test_chunks_of_a_prompt_keep_their_lengths_and_parts(traces: Path) -> None:
    loaded = load(traces / "ragpulse_0_trace.jsonl.gz")
    assert loaded.parts is not None
    assert [loaded.part_names[loaded.parts[block]] for block in loaded.requests.blocks[:11]] == [
        *["sys_prompt"] * 3,
        *["passages_ids"] * 6,
        "history",
        "user_input",
    ]
    assert sum(loaded.requests.tokens[:11]) == pytest.approx(3112, abs=200)
    assert loaded.sessions is not None and int(loaded.sessions.max()) == 3_990 - 1


def test_a_folder_is_read_by_its_request_file(traces: Path, tmp_path: Path) -> None:
    for path in traces.glob("ragpulse_*"):
        (tmp_path / path.name).symlink_to(path)
    assert load(tmp_path).distinct_blocks == 58_727


@pytest.mark.parametrize(("name", "requests"), [("code", 8_819), ("conv", 19_366)])
def test_azure_tells_of_arrivals_and_lengths(traces: Path, name: str, requests: int) -> None:
    found = load_azure(Source(traces / f"azure_llm_2023_{name}.csv.gz"))
    assert len(found.times) == len(found.prompts) == len(found.outputs) == requests
    assert 3400 < found.times[-1] < 3600
    assert "no reuse" in found.notes[0]


def test_servegen_tells_of_the_rates_of_clients(traces: Path) -> None:
    found = load_arrivals(traces / "servegen_client_rates.csv.gz")
    assert isinstance(found, ClientRates)
    assert len(found.rates) == 251_524
    assert int(found.clients.max()) == 421 - 1


def test_any_trace_of_requests_gives_its_arrivals(traces: Path) -> None:
    found = load_arrivals(traces / "mooncake_conversation_trace.jsonl.gz")
    assert isinstance(found, Arrivals)
    assert found.prompts[:2].tolist() == [6758, 7322]
    assert found.outputs[:2].tolist() == [500, 490]
