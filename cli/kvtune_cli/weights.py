"""The weights of WorkloadAware as a person writes them: a preset, or `p_reuse_weight=0.6,life_weight=0.1`."""

from dataclasses import fields, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvtune_cache.eviction.workload_rules import WorkloadRules


def weights_of(text: str) -> "WorkloadRules":
    """Read rules: a preset, numbers by name over the neutral ones, or both; raises ValueError."""
    from kvtune_cache.eviction.workload_rules import NEUTRAL, TO_B, TO_C

    presets = {"neutral": NEUTRAL, "to-b": TO_B, "to-c": TO_C}
    names = [field.name for field in fields(NEUTRAL)]
    rules, numbers = NEUTRAL, dict[str, float]()
    for number, part in enumerate(word.strip() for word in text.split(",")):
        name, equals, value = (word.strip() for word in part.partition("="))
        if number == 0 and not equals and name in presets:
            rules = presets[name]
            continue
        if not equals or name not in names:
            raise ValueError(
                f"{part!r} is neither {', '.join(presets)} nor NAME=NUMBER of {', '.join(names)}"
            )
        try:
            numbers[name] = float(value)
        except ValueError as error:
            raise ValueError(f"{name}: {value!r} is not a number") from error
    return replace(rules, **numbers)
