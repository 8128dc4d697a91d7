"""The part of Kubernetes' object metadata that kvtune reads and writes."""

from typing import Annotated

from pydantic import Field

from kvtune_api.codec import frozen
from kvtune_api.rules import Form

Name = Annotated[
    str,
    Field(min_length=1, max_length=253),
    Form(
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        words="a name of lower-case letters, digits, '-' and '.', such as chat",
    ),
]
"""A name as Kubernetes allows it (a DNS subdomain)."""


@frozen
class Metadata:
    """The part of Kubernetes' object metadata that kvtune reads."""

    name: Name
    """Name of the object."""

    namespace: Annotated[str, Field(max_length=63)] | None = None
    uid: Annotated[str, Field(max_length=64)] | None = None
    generation: Annotated[int, Field(ge=0)] | None = None
    resource_version: Annotated[str, Field(max_length=64)] | None = None
    finalizers: tuple[str, ...] | None = None
    """As many as others have set: their number is not ours to judge."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
