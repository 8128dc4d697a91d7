"""Agents that leave, as tests say them in a word or two."""

from kvtune_tuner.model import Departure, Leaving


def going(why: str = "its pod is being deleted") -> Leaving:
    """Its pod or node goes away."""
    return Leaving(kind=Departure.GOING, why=why)


def not_ready(why: str = "its pod is not ready") -> Leaving:
    """It gets no traffic."""
    return Leaving(kind=Departure.NOT_READY, why=why)


def rolled(why: str = "rollout of DaemonSet agents") -> Leaving:
    """A newer revision of its pod is being rolled out."""
    return Leaving(kind=Departure.ROLLOUT, why=why)
