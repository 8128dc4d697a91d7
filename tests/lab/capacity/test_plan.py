"""Plans: splits, the best one for a budget, where policies stop to matter, and the sentence."""

from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it has no types
import pytest

from kvtune_lab.capacity.advice import money, sentence
from kvtune_lab.capacity.curves import Curves, PolicyCurve, Sampling, policy_curves
from kvtune_lab.capacity.efficient import efficient
from kvtune_lab.capacity.parquet import write_rows
from kvtune_lab.capacity.plan import MATTERS, Plan, cost_per_point, plan, points_gained
from kvtune_lab.capacity.plots import figures
from kvtune_lab.capacity.prices import (
    DEFAULT_PRICES,
    DEFAULT_SPEEDS,
    GIB,
    NO_LIMIT,
    Budget,
    Money,
    Room,
    Terms,
)
from kvtune_lab.capacity.records import document, flat_rows
from kvtune_lab.capacity.splits import Layout, rate_at, sizes_below, splits
from kvtune_lab.looks import write_figures
from kvtune_lab.setups import Policy
from tests.lab.capacity.traces import skewed

TERMS = Terms(
    per_gib_month=DEFAULT_PRICES, bytes_per_second=DEFAULT_SPEEDS, prefill_tokens_per_second=8_000.0
)
LAYOUT = Layout(device_blocks=50, bytes_per_token=GIB // 1024, bytes_per_block=GIB, terms=TERMS)
CAPACITIES = [25, 50, 200, 800, 1_600, 2_500]


@pytest.fixture(scope="module")
def curves() -> Curves:
    """Sessions of which some are asked for more often; the device holds little of them."""
    policies = [Policy.LRU, Policy.FIFO, Policy.S3FIFO, Policy.OPT]
    return policy_curves(skewed(2_000), policies, CAPACITIES, sampling=Sampling(rate=1.0))


def planned(curves: Curves, budget: Budget) -> Plan:
    """A plan where a block is a GiB and loads in little time."""
    return plan(curves, LAYOUT, budget)


def test_sizes_below_the_device_end_where_the_trace_fits() -> None:
    assert sizes_below(100, 350) == [150, 200, 300, 350]
    assert sizes_below(100, 100) == []


def test_hits_by_tier_under_lru_are_differences_of_its_curve(curves: Curves) -> None:
    for split in splits(curves, LAYOUT):
        if split.policy is Policy.LRU:
            device, host, disk = split.device_blocks, split.host_blocks, split.disk_blocks
            rate = curves.lru.rate
            assert split.device_hit_rate == rate(device)
            assert split.device_hit_rate + split.host_hit_rate == pytest.approx(rate(max(device, host)))
            assert split.hit_rate == pytest.approx(rate(max(device, host, disk)))


def test_no_tier_hits_less_than_nothing_and_none_saves_more_than_it_hits(curves: Curves) -> None:
    for split in splits(curves, LAYOUT):
        assert split.host_hit_rate >= 0 and split.disk_hit_rate >= 0
        assert split.prefill_saved <= split.hit_rate + 1e-12
        assert split.disk_blocks == 0 or split.disk_blocks > split.host_blocks
        assert split.policy is not Policy.OPT


@pytest.mark.parametrize("budget", [Money(1e-3), Money(50), Money(500), Money(1e9), Room(80 * GIB), Room(1)])
def test_the_best_keeps_the_budget_and_is_within_half_a_point_of_the_most(
    curves: Curves, budget: Budget
) -> None:
    found = planned(curves, budget)
    allowed = [
        split
        for split in found.splits
        if (
            split.monthly_cost <= budget.monthly
            if isinstance(budget, Money)
            else (split.host_blocks + split.disk_blocks) * GIB <= budget.size_bytes
        )
    ]
    assert found.best in allowed
    most = max(split.prefill_saved for split in allowed)
    assert found.best.prefill_saved >= most - (2 if found.best.policy is Policy.LRU else 1) * MATTERS
    if found.best.policy is not Policy.LRU:
        assert found.best.prefill_saved >= found.best_by_lru.prefill_saved + MATTERS
    assert sentence(found).endswith(".") and "below the device below" not in sentence(found)
    assert sentence(found).count("; ") == 1


def test_a_budget_for_nothing_recommends_nothing(curves: Curves) -> None:
    found = planned(curves, Money(1e-3))
    assert found.best.monthly_cost == 0
    assert cost_per_point(found, found.best) is None
    assert sentence(found).startswith("Within 0.001 a month put nothing below the device: its 50 GiB hit ")


def test_without_a_budget_the_cheapest_that_saves_nearly_the_most_is_recommended(curves: Curves) -> None:
    found = planned(curves, NO_LIMIT)
    assert found.best == planned(curves, Money(1e9)).best
    assert sentence(found).startswith("Without a budget put ")
    assert document(found)["budget"] == {"monthly": None, "bytes_below_the_device": None}


def test_the_cost_of_a_point_is_that_of_what_is_gained(curves: Curves) -> None:
    found = planned(curves, Money(1e9))
    cost = cost_per_point(found, found.best)
    assert cost is not None
    assert cost * points_gained(found, found.best) == pytest.approx(found.best.monthly_cost)
    assert "for each point of hit rate gained" in sentence(found)


def test_efficient_splits_save_more_the_dearer_they_are(curves: Curves) -> None:
    front = efficient(splits(curves, LAYOUT))
    assert len(front) > 3
    for cheap, dear in pairwise(front):
        assert cheap.monthly_cost <= dear.monthly_cost and cheap.prefill_saved < dear.prefill_saved


def flat(curves: Curves, *rates: tuple[float, ...]) -> Curves:
    """The same trace with other rates of FIFO and S3FIFO, as differences to LRU."""
    lru = [curves.lru.rate(capacity) for capacity in CAPACITIES]
    others = [
        PolicyCurve(
            policy=policy,
            rates=tuple(base + gap for base, gap in zip(lru, gaps, strict=True)),
            errors=(0.0,) * len(lru),
        )
        for policy, gaps in zip((Policy.FIFO, Policy.S3FIFO), rates, strict=True)
    ]
    return Curves(
        capacities=curves.capacities,
        lru=curves.lru,
        policies=(PolicyCurve(policy=Policy.LRU, rates=tuple(lru), errors=(0.0,) * 6), *others),
        sampling=curves.sampling,
        control=curves.control,
    )


def test_policies_matter_up_to_where_their_gap_stays_below_half_a_point(curves: Curves) -> None:
    gains = (0.1, 0.1, 0.001, 0.006, 0.004, 0.0)
    losses = (0.0, 0.0, 0.0, -0.1, -0.002, 0.0)
    found = planned(flat(curves, gains, losses), Money(100))
    assert found.no_gain_from == 1_600
    assert found.no_policy_from == 2_500, "at 1,600 they are .6 point apart"
    assert "above 1.562 TiB none beats LRU by 0.5 point" in sentence(found)
    assert "none of the measured policies matters (LRU, FIFO and S3FIFO within 0.5 point)" in sentence(found)


def test_where_policies_always_matter_it_says_so(curves: Curves) -> None:
    found = planned(flat(curves, (0.1,) * 6, (0.0,) * 6), Money(100))
    assert (found.no_gain_from, found.no_policy_from) == (None, None)
    assert "at no measured capacity are LRU, FIFO and S3FIFO within 0.5 point" in sentence(found)


def test_what_was_not_measured_is_not_said_to_matter_or_not(curves: Curves) -> None:
    alone = Curves(
        capacities=curves.capacities,
        lru=curves.lru,
        policies=(curves.policies[0], curves.policies[-1]),
        sampling=curves.sampling,
        control=curves.control,
    )
    assert sentence(planned(alone, Money(100))).endswith("; no policy but LRU was measured.")


def test_between_measured_capacities_a_rate_stays_between_those_measured(curves: Curves) -> None:
    lru = [curves.lru.rate(capacity) for capacity in CAPACITIES]
    full = tuple(lru[-1] - rate for rate in lru)
    found = flat(curves, full, (0.0,) * 6)
    all_hit = rate_at(found, found.policies[1])
    assert [all_hit(capacity) for capacity in range(25, 2_500, 7)] == pytest.approx([lru[-1]] * 354)
    same = rate_at(found, found.policies[2])
    for capacity in CAPACITIES:
        assert same(capacity) == pytest.approx(curves.lru.rate(capacity))


def test_rules_of_thumb_stand_beside_what_lru_hits(curves: Curves) -> None:
    rules = planned(curves, Money(1)).rules
    assert [rule.multiple for rule in rules] == [1, 2, 3]
    assert [rule.hit_rate for rule in rules] == [curves.lru.rate(size) for size in (50, 100, 150)]


def test_records_hold_every_point_and_every_split(curves: Curves, tmp_path: Path) -> None:
    found = planned(curves, Room(100 * GIB))
    data = document(found)
    assert data["recommendation"] == sentence(found)
    assert data["budget"] == {"monthly": None, "bytes_below_the_device": 100 * GIB}
    assert len(data["curves"]) == 4 * len(CAPACITIES)
    write_rows(flat_rows(found), tmp_path / "plan.parquet")
    rows = pq.read_table(tmp_path / "plan.parquet").to_pylist()
    assert len(rows) == 4 * len(CAPACITIES) + len(found.splits)
    assert {row["kind"] for row in rows} == {"curve", "split"}


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_plots_are_written(curves: Curves, tmp_path: Path, suffix: str) -> None:
    found = figures(planned(curves, Money(100)))
    written = write_figures(found, tmp_path / "new", command="capacity", suffix=suffix)
    assert [path.name for path in written] == [
        f"capacity-{name}.{suffix}" for name in ("curves", "cost", "tiers")
    ]
    assert all(path.stat().st_size > 5_000 for path in written)


@pytest.mark.parametrize(("amount", "text"), [(0.0, "0"), (3.4049, "3.405"), (12_060.4, "12,060")])
def test_money_is_written_for_a_person(amount: float, text: str) -> None:
    assert money(amount) == text
