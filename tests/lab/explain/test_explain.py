"""What is explained of a trace: rates, bounds, hints, what was learned, plots."""

from dataclasses import replace
from math import isnan
from pathlib import Path

import pytest
from matplotlib.patches import StepPatch

from kvtune_cache.cache import plain_cache
from kvtune_cache.eviction.names import REUSE_AWARE
from kvtune_cache.requests import Requests, serve_all
from kvtune_cache.reuse_aware.axes import AXIS_NAMES, LEVEL_NAMES
from kvtune_cache.reuse_aware.classes import AXES, CLASSES, put_levels
from kvtune_cache.reuse_aware.state import AGES, USED
from kvtune_cache.rules import Rules
from kvtune_lab.capacity.curves import Sampling
from kvtune_lab.explain.explain import OURS, Explained, distances, explain
from kvtune_lab.explain.learned import Learned, learn, learned_by
from kvtune_lab.explain.plots import figures
from kvtune_lab.explain.records import document, learned_document
from kvtune_lab.looks import write_figures
from kvtune_lab.readers.loaded import as_lists
from kvtune_lab.setups import Policy
from tests.lab.capacity.traces import skewed

SIZES = [40, 120, 400]


@pytest.fixture(scope="module")
def requests() -> Requests:
    """Twelve hundred requests a second apart."""
    return skewed(1_200)


@pytest.fixture(scope="module")
def explained(requests: Requests) -> Explained:
    """Everything at three capacities."""
    return explain(requests, SIZES, sampling=Sampling(rate=1.0), accuracies=(0.7, 1.0))


@pytest.fixture(scope="module")
def learned(requests: Requests) -> Learned:
    """What is learned with little room."""
    return learn(requests, 120)


def test_lru_ours_and_opt_are_measured(explained: Explained) -> None:
    assert [curve.policy.value for curve in explained.curves.policies] == ["LRU", OURS, "OPT"]
    assert explained.of("FIFO") is None


def test_others_are_measured_when_asked_for(requests: Requests) -> None:
    found = explain(requests, [40], sampling=Sampling(rate=1.0), policies=[Policy.FIFO, Policy.LRU])
    assert [curve.policy.value for curve in found.curves.policies] == ["LRU", OURS, "OPT", "FIFO"]


def test_distances_are_points_over_lru(explained: Explained) -> None:
    lru, ours, opt = (explained.of(name) for name in ("LRU", OURS, "OPT"))
    assert lru is not None and ours is not None and opt is not None
    for i, one in enumerate(distances(explained)):
        assert one.capacity_blocks == SIZES[i]
        assert one.ours == pytest.approx(100 * (ours.rates[i] - lru.rates[i]))
        assert one.possible == pytest.approx(100 * (opt.rates[i] - lru.rates[i])) and one.possible > 0
        knowable = min(explained.bounds["all classes"][i], opt.rates[i])
        assert one.knowable == pytest.approx(100 * (knowable - lru.rates[i]))


def test_a_bound_above_opt_is_not_taken_for_knowable(explained: Explained) -> None:
    bounds = {**explained.bounds, "all classes": (1.0, 1.0, 1.0)}
    for one in distances(replace(explained, bounds=bounds)):
        assert one.knowable == one.possible


def test_what_is_known_bounds_grow_with_it(explained: Explained) -> None:
    for least, some, most, right in zip(*explained.bounds.values(), explained.hints[1.0], strict=True):
        assert least <= some + 1e-9 and some <= most + 1e-9 and most <= right + 1e-9


def test_learned_classes_have_the_levels_of_their_number(requests: Requests, learned: Learned) -> None:
    cache = plain_cache(max(requests.blocks) + 1, REUSE_AWARE)
    serve_all(cache, Rules(REUSE_AWARE, 120), as_lists(requests), [0] * 1_200)
    again = learned_by(cache.reuse)
    assert again == learned, "deterministic"
    assert len(again.classes) == cache.reuse.numbers[USED] > 3
    for slot, one in enumerate(again.classes):
        levels = [0] * AXES
        put_levels(levels, 0, cache.reuse.classes.number[slot])
        assert list(one.levels) == levels
        assert all(level < len(LEVEL_NAMES[axis]) for axis, level in enumerate(one.levels))


def test_every_axis_of_a_class_and_every_level_has_a_name() -> None:
    levels = [0] * AXES
    put_levels(levels, 0, CLASSES - 1)
    assert len(AXIS_NAMES) == AXES
    assert [level + 1 for level in levels] == [len(names) for names in LEVEL_NAMES]


def test_a_hazard_follows_events_and_exposure(learned: Learned) -> None:
    assert len(learned.edges_s) == AGES + 1 and list(learned.edges_s) == sorted(learned.edges_s)
    assert all(rate > 0 for one in learned.classes for rate in one.hazard_per_s)
    compared = 0
    for b in range(AGES):
        events = sum(one.events[b] for one in learned.classes)
        exposure = sum(one.exposure_s[b] for one in learned.classes)
        if events >= 100:
            fitted = sum(one.hazard_per_s[b] * one.exposure_s[b] for one in learned.classes) / exposure
            assert fitted == pytest.approx(events / exposure, rel=0.5), "shrunk, but near"
            compared += 1
    assert compared > 3


def test_levels_are_averaged_by_exposure(learned: Learned) -> None:
    for axis in range(len(AXIS_NAMES)):
        for level, rates in learned.by_level(axis).items():
            members = [one for one in learned.classes if one.levels[axis] == level]
            for b, rate in enumerate(rates):
                exposed = [one.hazard_per_s[b] for one in members if one.exposure_s[b] > 0]
                assert (rate is None) == (not exposed)
                assert rate is None or min(exposed) * 0.999 <= rate <= max(exposed) * 1.001


def test_records_hold_one_number_for_each_capacity(explained: Explained, learned: Learned) -> None:
    data = document(explained)
    assert data["capacities_blocks"] == SIZES
    assert set(data["policies"]) == {"LRU", OURS, "OPT"}
    assert [hint["accuracy"] for hint in data["hints"]] == [0.7, 1.0]
    assert all(len(hint["bound"]) == len(hint["simulated"]) == 3 for hint in data["hints"])
    assert len(data["distances"]) == 3
    classes = learned_document(learned)["classes"]
    assert len(classes) == len(learned.classes)
    assert set(classes[0]["levels"]) == set(AXIS_NAMES)


def test_plots_are_written(explained: Explained, learned: Learned, tmp_path: Path) -> None:
    found = figures(explained, learned)
    written = write_figures(found, tmp_path / "new", command="explain", suffix="png")
    names = ["explain-knowable.png", "explain-hints.png", "explain-hazard.png"]
    assert [path.name for path in written] == names
    assert all(path.stat().st_size > 5_000 for path in written)


def test_there_is_no_plot_of_what_nobody_has_learned(explained: Explained) -> None:
    nothing = Learned(edges_s=(0.0, 1.0), classes=())
    assert [name for name, _ in figures(explained, nothing)] == ["knowable", "hints"]
    assert list(figures(None, None)) == []


def test_a_hazard_is_not_drawn_over_ages_at_which_nothing_was_seen(learned: Learned) -> None:
    (hazard,) = (figure for name, figure in figures(None, learned) if name == "hazard")
    events = [sum(one.events[b] for one in learned.classes) for b in range(AGES)]
    assert any(count < 1 for count in events), "there are ages without events to leave out"
    drawn = 0
    for panel in hazard.axes:
        for line in panel.patches:
            assert isinstance(line, StepPatch)
            heights = line.get_data().values
            assert all(isnan(height) for height, count in zip(heights, events, strict=True) if count < 1)
            drawn += sum(not isnan(height) for height in heights)
    assert drawn > 0
