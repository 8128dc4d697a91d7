"""Stalls from profiles: evidence always, a guardrail where the policy sets a target for them."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from kvtune_api.experiment_settings import Margins
from kvtune_api.names import Phase
from kvtune_api.policy import HitRateTarget, PolicySpec, StallTarget, Targets
from kvtune_api.units import Duration
from kvtune_api.wire import Role
from kvtune_tuner.model import Stalls
from kvtune_tuner.replay import replay
from kvtune_tuner.sli import Missing, MissingReason
from tests.tuner.loop import Loop, loop
from tests.tuner.specs import QUICK, gaining, spec

Profiles = Callable[[str, float, float], Stalls | Missing]
RESTED = replace(QUICK, cooldown=Duration("10m"), margins=Margins(stall=0.02))
STALLED = replace(
    spec(settings=RESTED), targets=Targets(hit_rate=HitRateTarget(min=0.4), stall=StallTarget(max=0.2))
)
NO_PROFILE = Missing(reason=MissingReason.NO_DATA, message="Pyroscope has no such application")


def profiled(run: Loop, candidate: float, control: float) -> Profiles:
    """Profiles in which each arm stalls for a share of the time, with a little noise by agent and window."""

    def stalls(name: str, since: float, until: float) -> Stalls:
        report = run.pool.report(name, run.now)
        role = getattr(getattr(report, "running", None), "role", Role.INCUMBENT)
        share = candidate if role is Role.CANDIDATE else control
        jitter = (((int(name[-1]) * 31 + int(since) // 5) % 7) - 3) / 1000.0
        total = (until - since) * 100.0
        stalled = (share + jitter) * total
        return Stalls(load=stalled / 2, store=stalled / 4, evict=stalled / 4, total=total)

    return stalls


def _run(asked: PolicySpec, candidate: float, control: float, gain: float = 0.06) -> Loop:
    run = loop(gaining(gain), spec=asked)
    run.profiles = profiled(run, candidate, control)
    run.until_ended()
    return run


def test_stalls_of_each_arm_are_evidence_also_without_a_target() -> None:
    run = _run(spec(settings=RESTED), 0.30, 0.10)
    assert run.outcome() == "Promoted(Superior)", "without a target they hold nothing"
    found = run.experiment.status.evidence
    assert found.candidate["stall"] == pytest.approx(0.30, abs=0.01)
    assert found.control["stall"] == pytest.approx(0.10, abs=0.01)
    assert found.candidate["stallLoad"] == pytest.approx(0.15, abs=0.01)
    assert found.candidate["stallStore"] == pytest.approx(0.075, abs=0.01)
    assert "stall" not in found.guardrails
    assert replay(run.experiment).differences == ()


def test_rows_have_no_stalls_where_no_profiles_are_configured() -> None:
    run = loop(gaining(), spec=spec(settings=RESTED))
    run.until_ended()
    assert all(row.candidate is None or row.candidate.samples is None for row in run.rows)
    assert "stall" not in run.experiment.status.evidence.candidate


def test_a_candidate_that_stalls_no_more_is_promoted_under_a_target() -> None:
    run = _run(STALLED, 0.10, 0.10)
    assert run.outcome() == "Promoted(Superior)"
    assert {plan.name for plan in run.experiment.status.guardrails} == {"hitRate", "stall"}
    assert replay(run.experiment).differences == ()


def test_a_candidate_that_stalls_more_is_rejected_although_it_hits_more() -> None:
    run = _run(STALLED, 0.30, 0.10)
    assert run.outcome() == "Rejected(HarmGuardrail)"
    assert run.experiment.status.message.startswith("stall: mean Delta -0.19")
    assert replay(run.experiment).differences == ()


@pytest.mark.parametrize(
    "answer",
    [
        NO_PROFILE,
        Stalls(load=0.0, store=0.0, evict=0.0, total=0.0),
        Stalls(load=float("nan"), store=0.0, evict=0.0, total=100.0),
        Stalls(load=90.0, store=20.0, evict=0.0, total=100.0),
    ],
)
def test_under_a_target_missing_profiles_neither_pass_nor_fail_and_say_so(answer: Stalls | Missing) -> None:
    run = loop(gaining(), spec=STALLED)
    run.profiles = lambda name, since, until: answer
    run.until_ended()
    assert run.outcome() == "Inconclusive(NoData)"
    assert run.experiment.status.message.startswith("guardrail stall was measured in 0 of 24 Deltas")
    assert replay(run.experiment).differences == ()


def test_a_target_without_a_source_of_profiles_promotes_nothing() -> None:
    run = loop(gaining(), spec=STALLED)
    run.until_ended()
    assert run.outcome() == "Inconclusive(NoData)"


def test_profiles_that_are_late_by_a_tick_are_waited_for() -> None:
    run = loop(gaining(), spec=STALLED)
    usual = profiled(run, 0.1, 0.1)
    run.profiles = lambda name, since, until: NO_PROFILE if run.now < until + run.tick else usual(
        name, since, until
    )  # fmt: skip
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"


def test_a_ledger_of_version_1_replays_by_its_own_rule() -> None:
    run = loop(gaining(), spec=STALLED)
    run.until_phase(Phase.WASHOUT)
    found = run.experiment
    run.experiments[found.metadata.name] = replace(found, status=replace(found.status, ledger_version=1))
    run.until_ended()
    assert run.outcome() == "Inconclusive(MaxPairs)"
    assert replay(run.experiment).differences == ()


def test_a_ledger_of_a_newer_version_is_refused_by_its_version() -> None:
    run = loop(gaining(), spec=spec(settings=RESTED))
    run.until_ended()
    newer = replace(run.experiment, status=replace(run.experiment.status, ledger_version=99))
    assert replay(newer).differences == ("ledgerVersion 99 is newer than 2: not replayed",)
