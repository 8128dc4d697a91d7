"""What lost is not tried again, until the incumbent or the workload is another."""

from datetime import timedelta

import pytest

from kvtune_api.knobs import CacheConfig
from kvtune_api.policy import Strategy
from kvtune_tuner.denylist import DenyList, denied, losses_in_a_row, lost, near
from tests.tuner.proposal_cases import ENDINGS, NOW, made, trial

LOSSES = {"rejected", "harmful", "rolled back", "undecided"}
DAY = timedelta(hours=24)


@pytest.mark.parametrize("ending", ENDINGS)
def test_only_a_verdict_against_the_candidate_is_a_loss(ending: str) -> None:
    ended = trial(1, made(60), ending)
    assert lost(ended) == (ending in LOSSES)
    assert (denied([ended], made()).reason(made(60)) is not None) == (ending in LOSSES)


@pytest.mark.parametrize(
    ("config", "is_denied"),
    [
        (made(100, 0.1, 100), True),
        (made(104, 0.104, 96), True),
        (made(106, 0.1, 100), False),
        (made(100, 0.1, 94), False),
        (made(100, 0.1, None), False),
    ],
)
def test_what_is_within_five_percent_in_every_knob_is_denied(config: CacheConfig, is_denied: bool) -> None:
    deny = denied([trial(1, made(100, 0.1, 100))], made())
    assert (deny.reason(config) is not None) == is_denied
    assert near(config, made(100, 0.1, 100)) == is_denied


def test_the_reason_names_the_experiment_and_its_end() -> None:
    said = denied([trial(7, made(60), "rolled back")], made()).reason(made(60))
    assert said == "lost in experiment 7 (RolledBack, Breaker)"


def test_another_incumbent_or_workload_frees_what_lost() -> None:
    assert denied([trial(1, made(60))], made(40)) == DenyList()
    assert denied([trial(1, made(60), shifted=True)], made()) == DenyList()


def test_the_incumbent_that_was_replaced_is_denied_under_its_successor() -> None:
    promoted = trial(3, made(60), "promoted", effect=0.1)
    said = denied([promoted], made(60)).reason(made())
    assert said == "was replaced by the incumbent in experiment 3"


def test_losses_in_a_row_end_at_the_own_promotion_and_skip_what_had_no_verdict() -> None:
    trials = [
        trial(1, made(60)),
        trial(2, made(60), "promoted"),
        trial(3, made(70)),
        trial(4, made(80), "no data"),
        trial(5, made(80), "promoted", strategy=Strategy.LADDER),
        trial(6, made(90), "undecided"),
        trial(7, made(50), strategy=Strategy.OPTUNA),
    ]
    row = losses_in_a_row(trials, Strategy.REUSE_MODEL, NOW - DAY)
    assert [one.number for one in row] == [6, 3]


def test_losses_older_than_asked_or_under_another_workload_do_not_count() -> None:
    trials = [trial(1, made(60), ended_at=NOW - DAY), trial(2, made(70), shifted=True), trial(3, made(80))]
    row = losses_in_a_row(trials, Strategy.REUSE_MODEL, NOW - DAY)
    assert [one.number for one in row] == [3]
