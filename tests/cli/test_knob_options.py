"""Knobs as options of a command."""

import pytest

from kvtune_api.errors import SpecError
from kvtune_api.knobs import EvictionPolicy
from kvtune_cli.knob_options import config_from_options


@pytest.mark.parametrize("text", ["ReuseAware", "reuseaware", "REUSEAWARE"])
def test_a_policy_may_be_named_in_any_case(text: str) -> None:
    assert config_from_options(None, None, None, text).eviction_policy is EvictionPolicy.REUSE_AWARE


def test_a_policy_that_is_none_is_named_as_it_was_given() -> None:
    with pytest.raises(SpecError, match=r"--eviction-policy: .*Mru"):
        config_from_options(None, None, None, "Mru")
