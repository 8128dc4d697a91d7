"""When the noise known says that nothing can be shown: short looks, and noise that a large effect blew up."""

from dataclasses import replace

from kvtune_api.names import Phase
from kvtune_api.policy import Objective, Prices
from tests.fakes.responses import flat
from tests.tuner.loop import Loop, loop
from tests.tuner.specs import gaining


def _rested(run: Loop) -> None:
    """Run the first experiment to its end."""
    run.until_ended()


def _with_noise(run: Loop, sd: float, *, from_run_in: bool) -> None:
    status = run.status
    assert status.noise is not None
    noise = replace(status.noise, objective=sd, from_run_in=from_run_in)
    run.policy = replace(run.policy, status=replace(status, noise=noise))


def test_noise_of_an_experiment_is_marked_as_such_and_that_of_a_run_in_too() -> None:
    run = loop(gaining())
    run.until_phase(Phase.WASHOUT)
    assert run.status.noise is not None and run.status.noise.from_run_in
    _rested(run)
    assert run.status.noise is not None and not run.status.noise.from_run_in


def test_an_experiment_that_seems_underpowered_by_an_experiments_noise_measures_the_noise_anew() -> None:
    run = loop(flat(0.5))
    _rested(run)
    _with_noise(run, 0.2, from_run_in=False)
    run.until(lambda: len(run.experiments) == 2)
    assert run.experiment.spec.run_in, "the sd under a large effect is not that of a small one"


def test_noise_of_a_run_in_is_believed_and_refuses() -> None:
    run = loop(flat(0.5))
    _rested(run)
    _with_noise(run, 0.2, from_run_in=True)
    run.steps(30)
    assert len(run.experiments) == 1
    assert "power" in run.status.waiting_for and "maxPairs" in run.status.waiting_for


def test_an_edit_of_the_policy_forgets_the_noise_of_what_was_asked_before() -> None:
    run = loop(flat(0.5))
    _rested(run)
    assert run.status.noise is not None
    edited = replace(run.policy.spec, objective=Objective(prices=Prices(memory=0.2)))
    run.policy = replace(run.policy, spec=edited)
    run.step()
    assert run.status.noise is None or run.experiment.spec.run_in
