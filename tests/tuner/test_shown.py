"""The columns of `kubectl get`, and how seldom a status at rest is written."""

from dataclasses import replace

import pytest

from kvtune_api.names import ConditionType, Phase
from kvtune_api.policy import HitRateTarget, Mode, PolicySpec, Targets, TTFTTarget
from kvtune_api.status import Met, Shown, Sli
from kvtune_api.units import Duration
from kvtune_tuner.shown import shown
from tests.fakes.sim import PoolSettings
from tests.tuner.loop import Loop, loop
from tests.tuner.specs import QUICK, gaining, spec

ASKED = Targets(ttft=TTFTTarget(quantile=0.9, limit=Duration("250ms")), hit_rate=HitRateTarget(min=0.78))
BOTH = replace(spec(), targets=ASKED)
HIT_ONLY = replace(spec(), targets=Targets(hit_rate=HitRateTarget(min=0.78)))
TTFT_ONLY = replace(spec(), targets=Targets(ttft=ASKED.ttft))


@pytest.mark.parametrize(
    ("asked", "slis", "expected"),
    [
        (
            BOTH,
            [Sli(name="ttft", value=0.538, target=0.9), Sli(name="hitRate", value=0.371, target=0.78)],
            Shown(ttft="53.8% <250ms (90%)", hit_rate="37.1% (78%)"),
        ),
        (
            BOTH,
            [Sli(name="ttft", target=0.9, reason="NoData"), Sli(name="hitRate", reason="NoTraffic")],
            Shown(ttft="n/a: NoData", hit_rate="n/a: NoTraffic"),
        ),
        (HIT_ONLY, [Sli(name="hitRate", value=0.5, target=0.78)], Shown(hit_rate="50.0% (78%)")),
        (
            TTFT_ONLY,
            [Sli(name="ttft", value=0.5, low=0.5, high=0.62, target=0.9), Sli(name="hitRate", value=0.07)],
            Shown(ttft="50.0-62.0% <250ms (90%)", hit_rate="7.0%"),
        ),
    ],
)
def test_slis_are_shown_against_their_targets(asked: PolicySpec, slis: list[Sli], expected: Shown) -> None:
    assert shown(asked, slis) == expected


def test_the_columns_follow_the_slis_of_the_status() -> None:
    run = loop(gaining(), agents=0)
    run.step()
    assert run.status.shown == Shown(ttft="n/a: NoTraffic", hit_rate="n/a: NoTraffic")
    run = loop(gaining())
    run.step()
    assert run.status.shown.ttft.endswith("<250ms (70%)") and "%" in run.status.shown.hit_rate


def _resting(mode: Mode, noise: float) -> Loop:
    rested = spec(mode, replace(QUICK, cooldown=Duration("24h")))
    pool = PoolSettings(agents=6, seed=3, noise_sd=noise, share_sd=noise, common_sd=noise)
    run = loop(gaining(), spec=rested, settings=pool)
    if mode is Mode.AUTO:
        run.until_ended()
    run.steps(40)
    return run


@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.OBSERVE])
def test_case_39_noisy_but_steady_traffic_is_hardly_ever_written_at_rest(mode: Mode) -> None:
    run = _resting(mode, 0.01)
    before = run.writes
    run.steps(100)
    assert run.phase is Phase.IDLE
    assert run.writes - before <= 5, "1,000 s: only when an SLI has moved by a point"


@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.OBSERVE])
def test_case_39_constant_traffic_is_never_written_at_rest(mode: Mode) -> None:
    run = _resting(mode, 0.0)
    before = run.writes
    run.steps(100)
    assert run.phase is Phase.IDLE and run.writes == before


def test_a_value_that_wavers_about_its_target_does_not_make_a_condition_flap() -> None:
    run = loop(gaining(), spec=spec(Mode.OBSERVE))
    run.step()
    found = next(sli for sli in run.status.slis if sli.name == "ttft")
    assert found.value is not None and found.met is Met.MET
    target = TTFTTarget(quantile=round(found.value - 0.002, 4), limit=Duration("250ms"))
    run.edit(replace(spec(Mode.OBSERVE), targets=Targets(ttft=target)))
    run.steps(2)
    changes, last = 0, run.condition(ConditionType.TARGETS_MET).status
    for _ in range(200):
        run.step()
        changes += run.condition(ConditionType.TARGETS_MET).status is not last
        last = run.condition(ConditionType.TARGETS_MET).status
    assert changes <= 1
