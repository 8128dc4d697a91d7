"""Labels as Kubernetes allows them: names of objects' labels and the values that they may have."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from kvtune_api.codec import user_written
from kvtune_api.rules import Form, Rule
from kvtune_api.scalars import NO_NULLS

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DOMAIN_MAX_LENGTH = 253

LabelValue = Annotated[
    str,
    Field(max_length=63),
    Form(pattern="^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", words="a label's value such as vllm-chat"),
]


def is_label_name(name: str) -> bool:
    """Whether Kubernetes allows a label of this name: `app`, `example.com/app`."""
    domain, slash, last = name.rpartition("/")
    if slash and (len(domain) > _DOMAIN_MAX_LENGTH or _DOMAIN.fullmatch(domain) is None):
        return False
    return _NAME.fullmatch(last) is not None


def _names(labels: dict[str, str]) -> dict[str, str]:
    for name in labels:
        if not is_label_name(name):
            text = "'{name}' is not a label's name such as app or example.com/app"
            raise PydanticCustomError("label_name", text, {"name": name[:80]})
    return labels


_REFUSED = "format.qualifiedName().validate(name).hasValue()"

Labels = Annotated[
    dict[str, LabelValue],
    Field(max_length=16),
    AfterValidator(_names),
    Rule(
        holds=f"self.all(name, !{_REFUSED})",
        message=f'"\'" + self.filter(name, {_REFUSED})[0] + '
        "\"' is not a label's name such as app or example.com/app\"",
    ),
    NO_NULLS,
]
"""Label names and the values that they must have."""


@user_written
class LabelSelector:
    """Kubernetes labels that must all match."""

    match_labels: Labels = Field(default_factory=dict)
    """Label names and the values they must have."""
