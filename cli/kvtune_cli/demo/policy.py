"""The demo's policy: chat traffic, a deliberately poor start, and prices under which the optimum is inside.

It is examples/chat.yaml, carried in the package so that an installed kvtune has it too.
"""

from dataclasses import replace
from importlib.resources import files

from kvtune_api.codec import dump, parse
from kvtune_api.knobs import CacheConfig, Tiers
from kvtune_api.policy import KVCachePolicy, Strategy, TTFTTarget
from kvtune_api.ranges import Bounds
from kvtune_api.units import Duration
from kvtune_cli.demo.options import STRATEGIES, DemoOptions

POLICY_FILE = "chat.yaml"
TRACE_TTFT_LIMIT = "2500ms"
"""Prompts of public traces are several times longer than chat: 250ms is out of reach there (at most .39)."""


def demo_policy(options: DemoOptions) -> KVCachePolicy:
    """The policy of a run: the given file, or the demo's own with the run's strategy and lengths."""
    from kvtune_cli.policies import policy_of

    path = options.policy
    if path is None:
        with files("kvtune_cli.demo").joinpath(POLICY_FILE).open("rb") as file:
            import yaml

            policy = parse(KVCachePolicy, yaml.safe_load(file))
    else:
        policy = policy_of(path)
    spec = policy.spec
    if options.strategy != "auto" or path is None:
        spec = replace(spec, strategy=Strategy(STRATEGIES[options.strategy]))
    if options.trace is not None and path is None:
        window = Bounds(min=Duration("300s"), max=Duration("10m"))
        spec = replace(
            spec,
            targets=replace(spec.targets, ttft=TTFTTarget(quantile=0.9, limit=Duration(TRACE_TTFT_LIMIT))),
            experiment=replace(spec.experiment, window=window, min_requests=300),
        )
    return replace(policy, spec=spec)


def written(policy: KVCachePolicy) -> str:
    """The policy as YAML."""
    import yaml

    return yaml.safe_dump(dump(policy), sort_keys=False)


def start_config(policy: KVCachePolicy) -> CacheConfig:
    """What the agents of a demo begin with: the policy's start, else its smallest values and first choice."""
    knobs = policy.spec.knobs
    ttl, ratio, host = knobs.cache_ttl, knobs.eviction_ratio, knobs.tiers.host_memory
    policies, threshold = knobs.eviction_policy, knobs.store_threshold
    return CacheConfig(
        cache_ttl=(ttl.start or ttl.min) if ttl else Duration("60s"),
        eviction_ratio=(ratio.start or ratio.max) if ratio else 0.1,
        tiers=Tiers(host_memory=(host.start or host.min) if host else None),
        eviction_policy=(policies.start or policies.choices[0]) if policies else None,
        store_threshold=(threshold.start or threshold.min) if threshold else None,
    )
