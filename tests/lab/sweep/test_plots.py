"""Plots of a sweep."""

from dataclasses import replace

from matplotlib.figure import Figure

from kvtune_lab.setups import Grid, Policy, Setup
from kvtune_lab.simulation import Evictions, Simulation
from kvtune_lab.sweep.plots import figures

EVICTIONS = Evictions(pressure=5, ttl=2, passes=0, wanted_again=3, blocks_written=9)


def done(setup: Setup) -> Simulation:
    """A row whose rate grows with the capacity."""
    rate = setup.capacity_blocks / 1000
    return Simulation(
        setup=setup,
        requests=10,
        block_references=100,
        distinct_blocks=50,
        prompt_tokens=1600,
        hit_tokens=160,
        token_hit_rate=rate,
        block_hit_rate=rate,
        token_hit_rate_last_half=rate,
        block_hit_rate_last_half=rate,
        evictions=None if setup.policy is Policy.OPT else EVICTIONS,
    )


GRID = Grid(policies=[Policy.LRU, Policy.ARC, Policy.OPT], capacities_blocks=[10, 100])


def drawn(grid: Grid, bytes_per_block: int | None = None) -> dict[str, Figure]:
    """All plots, by name."""
    return dict(figures([done(setup) for setup in grid.setups()], bytes_per_block=bytes_per_block))


def test_rates_stand_against_capacity_with_a_line_for_each_policy() -> None:
    plots = drawn(GRID)
    assert list(plots) == ["hit-rate", "evictions"]
    (ax,) = plots["hit-rate"].axes
    assert [line.get_label() for line in ax.get_lines()] == ["LRU", "ARC", "OPT"]
    assert list(ax.get_lines()[0].get_xdata()) == [10, 100]
    assert list(ax.get_lines()[0].get_ydata()) == [0.01, 0.1]


def test_the_optimum_has_no_evictions_to_draw() -> None:
    left, wanted = drawn(GRID)["evictions"].axes
    assert [line.get_label() for line in left.get_lines()] == ["LRU", "ARC"]
    assert list(left.get_lines()[0].get_ydata()) == [0.07, 0.07]
    assert list(wanted.get_lines()[0].get_ydata()) == [3 / 7, 3 / 7]


def test_capacities_are_marked_in_bytes_where_they_are_known() -> None:
    (ax,) = drawn(GRID, bytes_per_block=2**20)["hit-rate"].axes
    assert ax.xaxis.get_major_formatter()(10) == "10\n10 MiB"


def test_each_variant_has_a_panel_and_each_choice_a_plot() -> None:
    plots = drawn(replace(GRID, ttls_seconds=[None, 90.0], eviction_ratios=[None, 0.1]))
    assert list(plots) == ["hit-rate", "evictions", "ttl", "eviction-ratio"]
    titles = [ax.get_title() for ax in plots["hit-rate"].axes]
    assert titles == ["no TTL, no ratio", "ratio 0.1", "TTL 90 s", "TTL 90 s, ratio 0.1"]
    first = plots["ttl"].axes[0]
    assert [label.get_text() for label in first.get_xticklabels()] == ["90 s", "none"]


def test_one_setup_has_nothing_to_compare() -> None:
    assert drawn(replace(GRID, capacities_blocks=[10])) == {}
