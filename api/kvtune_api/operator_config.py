"""What a cluster's operator is told beside policies: the key `config.yaml` of its ConfigMap, read live."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from kvtune_api.codec import user_written
from kvtune_api.scalars import NUMBER, Switch
from kvtune_api.sources import PrometheusSource, PyroscopeSource
from kvtune_api.units import PositiveDuration


class Day(StrEnum):
    """A day of the week."""

    MON = "Mon"
    TUE = "Tue"
    WED = "Wed"
    THU = "Thu"
    FRI = "Fri"
    SAT = "Sat"
    SUN = "Sun"


@user_written
class FreezeWindow:
    """A time in which nothing is tried: by days of the week, or once between two moments."""

    name: Annotated[str, Field(max_length=63)] = ""
    """Shown where an experiment waits for its end."""

    days: Annotated[tuple[Day, ...], Field(max_length=7)] = ()
    """Days on which it begins, every week."""

    start: Annotated[str, Field(max_length=5, pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")] = "00:00"
    """Time of day at which it begins."""

    duration: PositiveDuration | None = None
    """How long it lasts (with days). Default: 24h."""

    time_zone: Annotated[str, Field(max_length=64)] = "UTC"
    """Of `start`, such as Europe/Berlin."""

    since: Annotated[str, Field(max_length=40)] | None = None
    """First moment, RFC 3339 (without days)."""

    until: Annotated[str, Field(max_length=40)] | None = None
    """End, RFC 3339 (without days)."""

    @model_validator(mode="after")
    def _one_kind(self) -> "FreezeWindow":
        once = self.since is not None or self.until is not None
        if once == bool(self.days):
            raise ValueError("either days, or since and until, are needed")
        if once and (self.since is None or self.until is None):
            raise ValueError("since and until are both needed")
        return self


@user_written
class AgentAccess:
    """How agents are reached."""

    insecure: Switch = False
    """Send the write token over plain http to pods, too. Without it agents must serve https."""

    tls: Switch = False
    """Whether agents serve https."""

    server_name: Annotated[str, Field(max_length=253)] | None = None
    """Name that the agents' certificates must carry (https)."""

    ca_file: Annotated[str, Field(max_length=253)] | None = None
    """File with the authorities to trust beside the system's own (https)."""


@user_written
class OperatorConfig:
    """Defaults and limits for all policies."""

    stop: Switch = False
    """The kill switch: every experiment ends now and none starts; agents keep or regain their incumbents."""

    max_experiments: Annotated[int, Field(ge=0, le=10_000), NUMBER] = 10
    """At most this many experiments run at once in the cluster."""

    max_exposed_share: Annotated[float, Field(gt=0, le=1), NUMBER] = 0.5
    """At most this share of a policy's agents runs an unproven candidate at once."""

    freeze_windows: Annotated[tuple[FreezeWindow, ...], Field(max_length=64)] = ()
    """Times in which no experiment starts, and running ones end."""

    prometheus: PrometheusSource = PrometheusSource()
    """For policies that do not say otherwise."""

    pyroscope: PyroscopeSource = PyroscopeSource()
    """For policies that do not say otherwise."""

    agents: AgentAccess = AgentAccess()
    """How agents are reached."""
