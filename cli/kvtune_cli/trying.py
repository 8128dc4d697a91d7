"""`kvtune try`: ask a running control plane to test a configuration of one's own."""

from typing import Annotated

import typer

from kvtune_cli.wishes import STATE_DIR, JsonOption, PolicyOption, StateDirOption, leave_wish


def try_config(
    cache_ttl: Annotated[str | None, typer.Option("--cache-ttl", help="TTL to try, such as 120s.")] = None,
    eviction_ratio: Annotated[float | None, typer.Option("--eviction-ratio", help="Ratio to try.")] = None,
    host_memory: Annotated[str | None, typer.Option("--host-memory", help="Size, such as 96Gi.")] = None,
    state_dir: StateDirOption = STATE_DIR,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Test a configuration of your own in the next experiment; bounds and largest steps hold for it, too.

    Example: kvtune try --host-memory 96Gi --cache-ttl 120s
    """
    from kvtune_api.codec import parse
    from kvtune_api.errors import Problem, SpecError
    from kvtune_api.knobs import CacheConfig, point

    knobs = {"cacheTTL": cache_ttl, "evictionRatio": eviction_ratio, "tiers": {"hostMemory": host_memory}}
    config = parse(CacheConfig, knobs)
    if not point(config):
        raise SpecError(
            Problem("", "try needs at least one knob: --cache-ttl, --eviction-ratio or --host-memory")
        )
    effect = "this configuration is tested once nothing else runs; the experiment decides"
    leave_wish("try", "", state_dir, policy, effect, as_json, config=config)
