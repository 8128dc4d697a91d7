"""The policies of most tests: one knob, short windows, a candidate that is better."""

from kvtune_api.experiment_settings import ExperimentSettings
from kvtune_api.knobs import CacheConfig
from kvtune_api.policy import (
    Knobs,
    Mode,
    PolicySpec,
    Strategy,
    Targets,
    TTFTTarget,
)
from kvtune_api.ranges import Bounds, DurationRange
from kvtune_api.units import Duration
from tests.fakes.responses import Surface, stepwise

START = CacheConfig(cache_ttl=Duration("60s"))
BETTER = CacheConfig(cache_ttl=Duration("240s"))
"""What the ladder tries first from START with a largest step of 4."""

QUICK = ExperimentSettings(
    window=Bounds(min=Duration("60s"), max=Duration("60s")),
    washout=Bounds(min=Duration("20s"), max=Duration("20s")),
    cooldown=Duration("0s"),
    no_data_timeout=Duration("5m"),
)
"""Short windows: an epoch is 80 s."""


def spec(mode: Mode = Mode.AUTO, settings: ExperimentSettings = QUICK) -> PolicySpec:
    """A policy with one knob whose first candidate is `BETTER`."""
    return PolicySpec(
        targets=Targets(ttft=TTFTTarget(quantile=0.7, limit=Duration("250ms"))),
        knobs=Knobs(
            cache_ttl=DurationRange(
                min=Duration("30s"), max=Duration("600s"), start=Duration("60s"), largest_step=4
            )
        ),
        strategy=Strategy.LADDER,
        experiment=settings,
        mode=mode,
    )


DEFAULT_SPEC = spec()


def gaining(gain: float = 0.06, share_gain: float = 0.0) -> Surface:
    """The first candidate is better than all else (worse when negative)."""
    return stepwise(BETTER, gain=gain, share_gain=share_gain)
