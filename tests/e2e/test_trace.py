"""The demo on a real trace, where the traces are at hand."""

import os
from pathlib import Path

import pytest

from tests.e2e.policies import quick
from tests.e2e.processes import kvtune
from tests.e2e.test_demo import Demo

TRACE = Path(__file__).resolve().parents[3] / "shared/traces/mooncake_conversation_trace.jsonl.gz"

pytestmark = [
    pytest.mark.skipif(not TRACE.exists(), reason=f"{TRACE.name} is not at hand"),
    pytest.mark.skipif(
        os.environ.get("KVTUNE_LONG_TESTS") != "1", reason="runs with KVTUNE_LONG_TESTS=1: a minute"
    ),
]


def test_the_demo_runs_on_a_real_trace(tmp_path: Path) -> None:
    document = quick(
        targets={"ttft": {"quantile": 0.9, "limit": "2500ms"}},
        experiment={"minRequests": 50, "window": {"min": "60s", "max": "120s"}},
    )
    demo = Demo(tmp_path, document, "--trace", TRACE, "--speed", 120, "--no-last-act")
    try:
        assert demo.running.code() == 0, demo.running.err

        result = demo.result
        assert result["trace"] == str(TRACE)
        assert result["experiments"]
        assert result["before"]["hitRate"] > 0
        assert result["replay"]["differences"] == []
        assert result["restored"] is True
        assert kvtune("replay", demo.run / "state").returncode == 0
    finally:
        demo.running.clean_up()
