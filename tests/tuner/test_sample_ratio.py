"""The gate of the sample ratio: sessions that a router draws to one arm end an experiment."""

from dataclasses import replace

from kvtune_api.wire import Counters
from kvtune_tuner.sli import Missing
from tests.fakes.pool import Pool
from tests.fakes.sim import PoolSettings
from tests.tuner.loop import loop
from tests.tuner.specs import START, gaining


class DrawnToCandidates(Pool):
    """A pool whose router sends one more new session per second to agents that run the candidate."""

    def counters(self, name: str, at: float, now: float) -> Counters | Missing:
        """The counters, with the roots that came to the candidate."""
        found = super().counters(name, at, now)
        if isinstance(found, Missing) or found.new_session_roots is None:
            return found
        return replace(found, new_session_roots=found.new_session_roots + self._exposed_seconds(name, at))

    def _exposed_seconds(self, name: str, until: float) -> float:
        seconds, began = 0.0, None
        for when, agent, push in self.log:
            if agent != name or when > until:
                continue
            if push.lease_seconds is not None:
                began = when if began is None else began
            elif began is not None:
                seconds, began = seconds + when - began, None
        return seconds + (until - began if began is not None else 0.0)


def test_a_session_ratio_that_does_not_match_ends_without_a_verdict() -> None:
    run = loop(gaining())
    run.pool = DrawnToCandidates(run.pool.settings, surface=gaining(), config=START)
    run.until_ended()
    assert run.outcome() == "Inconclusive(SampleRatio)"
    assert run.all_run(START)


def test_agents_that_do_not_count_session_roots_are_judged_without_that_gate() -> None:
    settings = PoolSettings(agents=6, seed=1, noise_sd=0.005, share_sd=0.005, roots_per_request=None)
    run = loop(gaining(), settings=settings)
    run.until_ended()
    assert run.outcome() == "Promoted(Superior)"
    assert run.experiment.status.evidence.sample_ratio == "NotAvailable"
