"""The parts of the cluster's benchmark that need no cluster: the light agents, figures, tables."""

import math
from collections import Counter

import pytest

from kvtune_api.codec import canonical, parse_json
from kvtune_api.wire import Counters, Histogram, Report, Role, Running
from kvtune_tuner.draft import sample
from kvtune_tuner.sli import Missing, WindowCounts, increase
from tests.benchmarks.kubernetes_agents import START, LightAgent
from tests.benchmarks.kubernetes_figures import milliseconds, quantile, without_lease, writes
from tests.benchmarks.kubernetes_ground import Scale
from tests.benchmarks.kubernetes_tables import FanOut, Measured, Span, Start, tables
from tests.benchmarks.table import markdown
from tests.fakes.samples import incumbent_push, push

NOW = 10_003.0


def _agent() -> LightAgent:
    return LightAgent("agent-1", 1, 8_000.0)


def _report(agent: LightAgent, now: float = NOW, at: float | None = None) -> Report:
    return parse_json(Report, agent.report(now, at))


def test_a_light_agent_reports_as_an_agent_does() -> None:
    report = _report(_agent())
    assert (report.agent, report.clock, report.started_at) == ("agent-1", NOW, 8_000.0)
    assert report.running == Running(role=Role.INCUMBENT, config=START, incumbent=START)
    assert report.counters is not None
    assert report.counters.at == 10_000.0
    assert isinstance(report.counters.ttft, Histogram)


def test_the_counters_of_a_light_agent_bound_windows() -> None:
    agent = _agent()
    bounds = [_report(agent, at=at).counters for at in (9_900.0, 9_960.0)]
    first, last = (sample(found) for found in bounds if isinstance(found, Counters))
    assert not isinstance(first, Missing)
    assert not isinstance(last, Missing)
    window = increase(first, last)
    assert isinstance(window, WindowCounts)
    assert window.requests == pytest.approx(600, abs=6)


def test_a_light_agent_takes_pushes_under_fences_and_leases() -> None:
    agent = _agent()
    candidate = push(2, ttl=120.0)
    status, answer = agent.push(canonical(candidate).encode(), NOW)
    assert status == 200
    assert parse_json(Running, answer).config == candidate.config
    assert _report(agent).running.role is Role.CANDIDATE
    assert agent.push(canonical(push(1)).encode(), NOW)[0] == 409
    assert agent.push(canonical(push(9, token=4)).encode(), NOW)[0] == 409
    assert _report(agent, NOW + 31.0).running.config == START, "the lease is over"
    assert agent.push(canonical(incumbent_push(3, ttl=60.0)).encode(), NOW)[0] == 200
    assert _report(agent).running.incumbent == incumbent_push(ttl=60.0).config


def test_quantiles_are_values_that_were_measured() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile(range(1, 101), 0.99) == 99
    assert math.isnan(quantile([], 0.5))
    assert milliseconds([0.25], 1.0) == "250"
    assert milliseconds([], 0.5) == "-"


def test_calls_that_hold_the_lease_are_no_writes_of_a_policy() -> None:
    calls = Counter({"update leases": 30, "get kvcachepolicies": 9, "update kvcachepolicies/status": 2})
    assert writes(without_lease(calls)) == 2


def test_every_figure_has_its_row() -> None:
    span = Span(
        what="at rest",
        seconds=60.0,
        steps=(0.1, 0.2),
        slowest_policy=0.2,
        calls=Counter({"get kvcachepolicies": 2, "update leases": 30}),
        own_calls=Counter({"get kvcachepolicies": 2}),
        processor=6.0,
        rss_mib=140.0,
        most_mib=150.0,
        troubles=Counter(),
    )
    measured = Measured(
        Scale(policies=1, agents=1000, namespaces=1, nodes=1),
        start=Start(leading=2.0, first_step=3.0, all_stepped=3.0),
        spans=(span,),
        fan_outs=(FanOut(agents=1000, p99=0.5, whole=0.6, from_edit=1.5),),
        takeovers=((15.0, 14.0, 15.0),),
    )
    text = "\n".join(markdown(table) for table in tables([measured]))
    assert "| 1 x 1,000, at rest | 2 | 100 | 200 | 200 | 200 | yes | 10 | 140 (150) |" in text
    assert "| 1 x 1,000, at rest | 1.00 | get 1.00 | 1.00 | 0 | 60 | 30 |" in text
    assert "| 1 x 1,000 | 1000 | 500 | 600 | 1500 |" in text
    assert "| 1 x 1,000, kill -9, lease 15 s | 14.0 | 15.0 | - |" in text
