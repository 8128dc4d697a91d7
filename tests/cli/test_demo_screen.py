"""What the demo shows while it runs: a screen that fits the terminal, or plain lines."""

from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from kvtune_api.codec import parse
from kvtune_api.knobs import CacheConfig
from kvtune_api.names import Reason
from kvtune_api.status import PolicyStatus
from kvtune_api.wire import Role
from kvtune_cli.demo.screen import agents_line, screen
from kvtune_cli.demo.story import Stage
from kvtune_cli.demo.watching import Figures, Picture
from kvtune_operator.eventlog import KeptEvent
from kvtune_operator.ports import Unreachable
from kvtune_tuner.model import EventType
from tests.cli.demo_runs import options, picture, report, resting
from tests.fakes.samples import cache_config, experiment, policy

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def busy() -> Picture:
    """Everything that a screen may have to show, with long words."""
    one = experiment()
    spec = replace(one.spec, why="the reuse model predicts a gain " * 5, predicted_gain=0.0123)
    evidence = replace(one.status.evidence, deltas=7, effect=0.0123, interval=(-0.01, 0.03), e_value=3.2)
    record = replace(one.status, evidence=evidence, power=0.83, estimated_end=1500.0)
    event = KeptEvent(
        first=NOON, last=NOON, policy="chat", type=EventType.NORMAL, reason=Reason.COOLDOWN, message="m " * 90
    )
    status = replace(
        resting(Reason.COOLDOWN).status or PolicyStatus(),
        waiting_for="measuring block 3 " * 9,
        incumbent=cache_config(),
    )
    agents = {f"a{number}": report(500.0, Role.CANDIDATE, 4.2 + number) for number in range(3)}
    return replace(
        picture(replace(policy(), status=status)),
        experiment=replace(one, spec=spec, status=record),
        agents={**agents, "b": report(500.0), "c": report(None), "d": Unreachable(message="gone " * 30)},
        candidate=Figures(objective=0.512, hit_rate=0.61, within_limit=0.93),
        events=(event,) * 6,
        behind_scaled_seconds=12345.0,
    )


def tuning_all() -> Picture:
    """The same with every knob set."""
    seen = busy()
    assert seen.experiment is not None
    every = parse(CacheConfig, {"evictionPolicy": "ReuseAware", "storeThreshold": 2})
    spec = replace(
        seen.experiment.spec,
        incumbent=replace(cache_config(), eviction_policy=every.eviction_policy, store_threshold=1),
        candidate=replace(
            cache_config(ttl=300.0, host_gib=114.0, ratio=0.089),
            eviction_policy=every.eviction_policy,
            store_threshold=every.store_threshold,
        ),
    )
    return replace(seen, experiment=replace(seen.experiment, spec=spec))


def drawn(seen: Picture, rows: int) -> list[str]:
    console = Console(width=80, height=rows, file=StringIO(), force_terminal=True)
    with console.capture() as capture:
        console.print(screen(seen, options(), "kvtune demo", rows=rows))
    return Text.from_ansi(capture.get()).plain.splitlines()


@pytest.mark.parametrize("rows", [24, 44])
@pytest.mark.parametrize("seen", [busy(), tuning_all()], ids=["three knobs", "all knobs"])
def test_the_screen_fits_the_terminal(seen: Picture, rows: int) -> None:
    frame = drawn(seen, rows)
    headings = next(text for text in frame if "hit rate" in text or "hit" in text.split())

    assert len(frame) <= rows
    assert max(len(text) for text in frame) <= 80
    assert "TTL" in headings
    assert "…" not in headings
    assert any("too slow for 60x" in text for text in frame)
    rows_of_arms = [text for text in frame if text.startswith(("│ incumbent  ", "│ candidate "))]
    assert not any("…" in text for text in rows_of_arms)
    assert all(label in "\n".join(frame) for label in ("time ", "phase ", "waits for ", "mean effect on Y "))


def test_few_rows_show_all_agents_in_one_line() -> None:
    frame = drawn(busy(), 24)

    assert any("agents: 3 candidate (lease 4.2 s), 2 incumbent, 1 silent" in text for text in frame)
    assert agents_line(picture(None)) == "agents: 0 candidate, 0 incumbent, 0 silent"


def test_plain_lines_say_the_lag_again_only_when_it_doubled() -> None:
    console = Console(width=160, file=StringIO())
    stage = Stage(options(), console, None)
    with console.capture() as capture:
        for seconds in (150.0, 160.0, 299.0, 301.0, None):
            stage.show(replace(picture(None), behind_scaled_seconds=seconds), "kvtune demo")

    said = [text for text in capture.get().splitlines() if "too slow" in text]
    assert [text.split()[2] for text in said] == ["150", "301"]
