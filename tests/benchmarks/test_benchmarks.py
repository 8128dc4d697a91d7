"""The bench's own machinery on tiny sizes: no figure is asserted here, and no time."""

from datetime import date
from pathlib import Path

import pytest

from kvtune_api.policy import Strategy
from kvtune_api.wire import Counters, Push, Role
from kvtune_tuner.verdict import Inconclusive, Promote
from tests.benchmarks.document import Provenance, section, written
from tests.benchmarks.loop import Loop
from tests.benchmarks.proportional import Controller
from tests.benchmarks.replay_arms import WAYS
from tests.benchmarks.replay_arms import Task as ArmsTask
from tests.benchmarks.replay_arms import judged as judged_arms
from tests.benchmarks.replay_pool import ORIGIN, WARM_SECONDS, ReplayPool, driven, spans
from tests.benchmarks.search import reached
from tests.benchmarks.search_runs import Run, Tuning
from tests.benchmarks.table import Table, markdown
from tests.benchmarks.traffic import CHAT_1, config_of
from tests.benchmarks.verdicts import Setting, judged

TABLE = Table(title="T", columns=("what", "n"), rows=(("a|b", "1"),), notes=("note",))


def _origin(*, partial: bool) -> Provenance:
    return Provenance(
        name="one", title="One", day=date(2030, 1, 1), seeds="seed 1", seconds=2.0, partial=partial
    )


def test_a_table_in_markdown_keeps_its_bars_apart() -> None:
    assert markdown(TABLE).splitlines()[2:5] == ["| what | n |", "|---|---:|", "| a\\|b | 1 |"]


def test_a_row_of_another_length_than_the_heads_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells under 1 heads"):
        Table(title="T", columns=("a",), rows=(("1", "2"),))


def test_a_section_is_replaced_and_the_others_stay_in_order(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks.md"
    written(path, "two", "## Two\n", ("one", "two"))
    written(path, "one", section(_origin(partial=True), [TABLE]), ("one", "two"))
    assert "Not finished" in path.read_text()
    written(path, "one", section(_origin(partial=False), [TABLE]), ("one", "two"))
    text = path.read_text()
    assert "Not finished" not in text
    assert text.index("## One") < text.index("## Two")
    assert text.count("## One") == 1


@pytest.mark.parametrize(("gain", "expected"), [(0.0, Inconclusive), (0.05, Promote)])
def test_one_experiment_runs_to_its_end_through_the_real_plan(gain: float, expected: type) -> None:
    run = judged(Setting(gain=gain, seed=3))
    assert run.crossover.verdict == expected.__name__
    assert run.noise > 0


def test_a_replay_pool_counts_every_request_at_the_grid_and_takes_pushes_at_once() -> None:
    pool = ReplayPool(CHAT_1, CHAT_1.start(0.05))
    first = next(spans(CHAT_1.requests(1), 600.0))
    pool.feed(first)
    now = ORIGIN - WARM_SECONDS + 600.0
    found = [pool.newest(name, now) for name in pool.names()]
    assert sum(one.requests or 0 for one in found if isinstance(one, Counters)) == len(first)
    name, config = pool.names()[0], config_of(60.0, 0.1, 20.0)
    push = Push(
        role=Role.CANDIDATE, generation=1, token=1, policy_uid="bench", config=config, lease_seconds=30
    )
    pool.push(name, push, now)
    assert pool.report(name, now).running.config == config
    assert pool.agents[name].model.settings == CHAT_1.settings(config)


def test_loops_that_share_traffic_see_the_same_requests() -> None:
    start = CHAT_1.start(0.05)
    pools = [ReplayPool(CHAT_1, start) for _ in range(2)]
    policy = CHAT_1.policy(start, Strategy.AUTO)
    tuning = Tuning(loop=Loop(pool=pools[0], policy=policy, now=ORIGIN), pool=pools[0])
    controller = Controller(pool=pools[1], policy=policy, now=ORIGIN)
    driven([tuning, controller], CHAT_1.requests(1), 600.0)
    for pool in pools:
        pool.advance(ORIGIN + 600.0)
    served = [sum(agent.model.totals.requests for agent in pool.agents.values()) for pool in pools]
    assert served[0] == served[1] > 0
    assert tuning.incumbents == [(0.0, start)]
    assert tuning.loop.running is not None
    assert controller.windows


def test_a_run_is_near_the_best_from_the_moment_its_incumbent_is() -> None:
    run = Run(
        strategy="Auto", start=0.05, steps=((0.0, 0.5), (900.0, 0.99)), tried=(), ended_in="nothing to try"
    )
    assert reached(run, 1.0) == 900.0
    assert reached(run, 2.0) is None


def test_every_way_of_judging_the_same_requests_gives_an_answer() -> None:
    assert set(judged_arms(ArmsTask(seed=1, blocks=2))) == set(WAYS)
