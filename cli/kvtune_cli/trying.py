"""`kvtune try`: ask a running control plane to test a configuration of one's own."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvtune_cli.knob_options import OPTIONS, config_from_options
from kvtune_cli.wishes import STATE_DIR, JsonOption, PolicyOption, StateDirOption, leave_wish

if TYPE_CHECKING:
    from kvtune_api.knobs import CacheConfig


def try_config(
    cache_ttl: Annotated[str | None, typer.Option("--cache-ttl", help="TTL to try, such as 120s.")] = None,
    eviction_ratio: Annotated[float | None, typer.Option("--eviction-ratio", help="Ratio to try.")] = None,
    host_memory: Annotated[str | None, typer.Option("--host-memory", help="Size, such as 96Gi.")] = None,
    eviction_policy: Annotated[
        str | None, typer.Option("--eviction-policy", help="Policy to try, such as ReuseAware.")
    ] = None,
    store_threshold: Annotated[
        int | None, typer.Option("--store-threshold", help="Store a block that came so often.")
    ] = None,
    state_dir: StateDirOption = STATE_DIR,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Test a configuration of your own in the next experiment; bounds and largest steps hold for it, too.

    Example: kvtune try --host-memory 96Gi --cache-ttl 120s
    """
    from kvtune_api.errors import Problem, SpecError
    from kvtune_api.knobs import point

    config = config_from_options(cache_ttl, eviction_ratio, host_memory, eviction_policy, store_threshold)
    if not point(config):
        raise SpecError(Problem("try", f"give at least one of {', '.join(OPTIONS.values())}"))
    _check_reach(state_dir, policy, config)
    effect = "this configuration is tested once nothing else runs; the experiment decides"
    leave_wish("try", "", state_dir, policy, effect, as_json, config=config)


def _check_reach(state_dir: Path, policy: str | None, config: "CacheConfig") -> None:
    """Refuse at once what the control plane would refuse when its turn comes."""
    from kvtune_api.errors import Problem, SpecError
    from kvtune_operator.statedir import StateDir, policies
    from kvtune_tuner.trying import asked_in_vain

    for known in policies(StateDir(state_dir)):
        if policy in (None, known.metadata.name) and (why := asked_in_vain(known, config)) is not None:
            raise SpecError(Problem("try", why))
