"""Score an agent's window: objective and guardrails from the figures of a ledger's row. Pure."""

from kvtune_api.knobs import CacheConfig
from kvtune_api.ledger import Figures
from kvtune_api.policy import PolicySpec
from kvtune_tuner.effect import Prices, hit_rate, objective
from kvtune_tuner.sli import Missing, MissingReason, WindowCounts

TTFT = "ttft"
HIT_RATE = "hitRate"


def prices(spec: PolicySpec) -> Prices:
    """The prices of a policy as the objective takes them."""
    given = spec.objective.prices
    return Prices(memory=given.memory, eviction_pass=given.eviction_pass, bytes_down=given.bytes_down)


def gib_configured(config: CacheConfig) -> float:
    """GiB configured in the priced tiers; 0 where the knob is not set."""
    return config.tiers.host_memory.gib if config.tiers.host_memory else 0.0


def counts(figures: Figures, seconds: float) -> WindowCounts:
    """The window that a row's figures came from."""
    return WindowCounts(
        seconds=seconds,
        requests=figures.requests,
        prompt_tokens=figures.prompt_tokens,
        hit_tokens=figures.hit_tokens,
        eviction_passes=figures.passes,
        bytes_down=figures.bytes_down,
        new_session_roots=figures.roots,
    )


def score(figures: Figures | None, seconds: float, config: CacheConfig, spec: PolicySpec) -> float | Missing:
    """Objective Y of one agent in one window."""
    if figures is None:
        return Missing(reason=MissingReason.NO_DATA, message="no figures in this row")
    return objective(counts(figures, seconds), gib_configured=gib_configured(config), prices=prices(spec))


def guardrail_value(name: str, figures: Figures | None, seconds: float) -> float | Missing:
    """A guardrail's value of one agent in one window: share within the TTFT limit, or hit rate."""
    if figures is None:
        return Missing(reason=MissingReason.NO_DATA, message="no figures in this row")
    if name == HIT_RATE:
        return hit_rate(counts(figures, seconds))
    if figures.within is None or not figures.timed:
        return Missing(reason=MissingReason.NO_DATA, message="no TTFT was counted in this window")
    return figures.within / figures.timed
