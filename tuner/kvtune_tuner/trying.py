"""Try a candidate that a user asked for: bounds and steps hold, and the experiment decides. Pure."""

from dataclasses import replace

from kvtune_api.knobs import CacheConfig, Knob, point, written
from kvtune_api.knobs import config as config_of
from kvtune_api.names import Reason
from kvtune_api.policy import KVCachePolicy, Mode
from kvtune_tuner.begin import USER, considered, held, resting, started
from kvtune_tuner.box import Side, step_box
from kvtune_tuner.candidate import with_prediction
from kvtune_tuner.configs import same_config
from kvtune_tuner.draft import Draft, with_warning
from kvtune_tuner.model import Command
from kvtune_tuner.proposal import Candidate
from kvtune_tuner.space import Axis, Space, space_of


def is_tried(draft: Draft, wish: Command) -> bool:
    """Whether the running experiment is what a wish asks for: it was started and could not be forgotten."""
    if draft.experiment is None or wish.config is None or draft.live.spec.strategy != USER:
        return False
    return same_config(draft.live.spec.candidate, _wanted(draft.live.spec.incumbent, wish.config))


def _wanted(incumbent: CacheConfig, asked: CacheConfig) -> CacheConfig:
    return config_of({**point(incumbent), **point(asked)})


def tried(draft: Draft, wish: Command) -> Draft:
    """Start the experiment that a user asked for, once nothing holds it; refuse what no step may reach."""
    mode = draft.seen.policy.spec.mode
    if wish.config is None or mode in (Mode.OBSERVE, Mode.AA_TEST):
        why = "no configuration is given" if wish.config is None else f"mode {mode} tries no candidate"
        draft = replace(draft, done=(*draft.done, wish))
        return considered(with_warning(draft, Reason.NOT_AVAILABLE, f"try: {why}"))
    reason_and_why = held(draft, asked=True)
    if reason_and_why is not None:
        return resting(draft, *reason_and_why)
    draft = replace(draft, done=(*draft.done, wish))
    incumbent = draft.status.incumbent
    assert incumbent is not None, "checked by held"
    wanted = _wanted(incumbent, wish.config)
    trouble = out_of_reach(draft.space, incumbent, wanted)
    if trouble is not None:
        return with_warning(draft, Reason.NOT_AVAILABLE, f"try: {trouble}")
    why = f"asked for by a user: {_change(incumbent, wanted)}"
    candidate = Candidate(config=wanted, strategy=USER, why=why)
    prices = draft.seen.policy.spec.objective.prices
    return started(draft, with_prediction(candidate, draft.reports, prices, incumbent))


def asked_in_vain(policy: KVCachePolicy, asked: CacheConfig) -> str | None:
    """Why a policy can never try this from its present incumbent; None while it may."""
    incumbent = policy.status.incumbent if policy.status else None
    space = space_of(policy.spec, frozenset(Knob))
    if incumbent is None or space.problem(incumbent) is not None:
        return None
    return out_of_reach(space, incumbent, _wanted(incumbent, asked))


def out_of_reach(space: Space, incumbent: CacheConfig, wanted: CacheConfig) -> str | None:
    """Why no experiment may go from the incumbent to what is wanted, knob by knob; None where one may.

    Raises ValueError where nothing can be proposed around the incumbent (`Space.problem`).
    """
    if same_config(incumbent, wanted):
        return "this is what the incumbent is"
    box = step_box(space, incumbent)
    if box.holds(wanted):
        return None
    values, before = point(wanted), point(incumbent)
    beyond = [
        _beyond(axis, side, values[axis.knob])
        for axis, side in zip(space.axes, box.sides, strict=True)
        if not side.holds(values[axis.knob])
    ]
    strange = [
        _not_tuned(space, knob)
        for knob, value in values.items()
        if knob not in space.knobs and value != before.get(knob)
    ]
    return "; ".join([*beyond, *strange])


def _beyond(axis: Axis, side: Side, value: float) -> str:
    """Which limit of a knob a value breaks."""

    def shown(one: float) -> str:
        return written(axis.knob, one)

    if axis.choices:
        return f"{axis.knob}: {shown(value)} is not among {axis.span}"
    if not axis.holds(value):
        return f"{axis.knob}: {shown(value)} is outside {axis.span}"
    step = f"the largest step x{axis.largest_step:g} from {shown(side.current)}"
    if value > side.high:
        return f"{axis.knob}: {shown(value)} is above {step} (at most {shown(side.high)})"
    return f"{axis.knob}: {shown(value)} is below {step} (at least {shown(side.low)})"


def _not_tuned(space: Space, knob: Knob) -> str:
    if knob in space.left_out:
        return f"{knob}: not every agent can change it live"
    return f"{knob}: is not among the knobs of the policy"


def _change(incumbent: CacheConfig, wanted: CacheConfig) -> str:
    before, after = point(incumbent), point(wanted)
    return ", ".join(
        f"{knob} {written(knob, before[knob]) if knob in before else 'unset'} -> {written(knob, value)}"
        for knob, value in after.items()
        if before.get(knob) != value
    )
