"""Score an agent's window: objective and guardrails from the figures of a ledger's row. Pure."""

from kvtune_api.knobs import CacheConfig
from kvtune_api.ledger import Figures
from kvtune_api.policy import PolicySpec
from kvtune_tuner.effect import Prices, hit_rate, objective
from kvtune_tuner.sli import Missing, MissingReason, WindowCounts

TTFT = "ttft"
HIT_RATE = "hitRate"
STALL = "stall"
GUARDRAILS = (TTFT, HIT_RATE, STALL)


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
    """A guardrail's value of one agent in one window, + is better.

    The share of requests within the TTFT limit, the hit rate, or the share of profile samples not stalled.
    """
    if figures is None:
        return Missing(reason=MissingReason.NO_DATA, message="no figures in this row")
    if name == HIT_RATE:
        return hit_rate(counts(figures, seconds))
    if name == STALL:
        parts = stall_shares(figures)
        return parts if isinstance(parts, Missing) else 1.0 - parts[STALL]
    if figures.within is None or not figures.timed:
        return Missing(reason=MissingReason.NO_DATA, message="no TTFT was counted in this window")
    return figures.within / figures.timed


def stall_shares(figures: Figures) -> dict[str, float] | Missing:
    """Shares of profile samples that waited for the cache: stall, and its parts load, store, evict."""
    if figures.samples is None or figures.samples <= 0.0:
        return Missing(reason=MissingReason.NO_DATA, message="no profile was taken in this window")
    load, store, evict = (part or 0.0 for part in (figures.load, figures.store, figures.evict))
    shares = {STALL: load + store + evict, "stallLoad": load, "stallStore": store, "stallEvict": evict}
    return {name: value / figures.samples for name, value in shares.items()}
