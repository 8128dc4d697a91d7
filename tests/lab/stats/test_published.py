"""Statistics of the published traces against their anchor figures."""

from pathlib import Path

import pytest

from kvtune_lab.readers.load import load, load_arrivals
from kvtune_lab.stats.intervals import Law
from kvtune_lab.stats.report import ClassStats, Options, TraceStats, arrival_report


def distance(stats: ClassStats, law: Law) -> float:
    return next(fit.ks_distance for fit in stats.intervals.fits if fit.law is law)


def test_chat_turns_are_reused_as_the_anchors_say(traces: Path) -> None:
    found = TraceStats(load(traces / "mooncake_conversation_trace.jsonl.gz"), Options()).report()
    anchors = {
        "turn 1": (0.30, 294, 0.116, 0.055),
        "turn 2": (0.38, 219, 0.095, 0.052),
        "turn 3": (0.46, 202, 0.120, 0.063),
        "turn 4-5": (0.56, 189, 0.091, 0.039),
        "turn 6+": (0.75, 168, 0.101, 0.054),
    }
    by_name = {stats.name: stats for stats in found.classes}
    for name, (reuse, mean, exponential, lognormal) in anchors.items():
        stats = by_name[name]
        assert stats.ideal_reuse == pytest.approx(reuse, abs=0.006), name
        assert stats.intervals.mean_seconds == pytest.approx(mean, abs=0.6), name
        assert distance(stats, Law.EXPONENTIAL) == pytest.approx(exponential, abs=6e-4), name
        assert distance(stats, Law.LOGNORMAL) == pytest.approx(lognormal, abs=6e-4), name
        assert stats.intervals.fits[0].law is Law.LOGNORMAL, name
    assert found.prefix_match_rate_last_half == pytest.approx(0.398113, abs=5e-7)
    assert found.whole.demand.working_set.distinct_blocks == 182_790


def test_chunks_of_the_system_prompt_are_reused_as_the_anchors_say(traces: Path) -> None:
    found = TraceStats(load(traces / "ragpulse_0_trace.jsonl.gz"), Options()).report()
    prompt = found.classes[0]
    users = found.whole.demand.skew
    assert users is not None and (prompt.name, users.users) == ("sys_prompt", 3_990)
    assert prompt.ideal_reuse == pytest.approx(0.60, abs=0.005)
    assert prompt.intervals.mean_seconds == pytest.approx(326, abs=0.6)
    assert distance(prompt, Law.EXPONENTIAL) == pytest.approx(0.360, abs=6e-4)
    assert distance(prompt, Law.LOGNORMAL) == pytest.approx(0.034, abs=6e-4)
    assert found.whole.prefix_match_rate == pytest.approx(0.315, abs=5e-4)


def test_agents_that_wait_for_a_tool_return_soon(traces: Path) -> None:
    found = TraceStats(load(traces / "agentic_dev_requests.jsonl.gz"), Options()).report()
    tool = found.classes[0]
    assert tool.name == "main: tool_use"
    assert tool.ideal_reuse == pytest.approx(0.98, abs=0.005)
    assert tool.intervals.mean_seconds == pytest.approx(53, abs=1.5)
    assert found.prefix_match_rate_last_half == pytest.approx(0.953, abs=0.001)
    assert found.sampled_references == 2_000_000


def test_few_clients_of_servegen_send_most_of_its_requests(traces: Path) -> None:
    found = arrival_report(load_arrivals(traces / "servegen_client_rates.csv.gz"))
    assert found.clients is not None
    assert found.clients.users_share_of_reuse == pytest.approx(0.10, abs=0.005)
    assert found.spikes is not None and found.spikes.index_of_dispersion is None
