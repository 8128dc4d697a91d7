"""Count the restarts of each arm's agents while a candidate is live, every restart once. Pure."""

from collections.abc import Iterable
from dataclasses import replace

from kvtune_api.names import Phase
from kvtune_tuner.draft import Draft, with_record
from kvtune_tuner.guard import Restarts


def with_restarts(draft: Draft, candidates: Iterable[str], controls: Iterable[str]) -> Draft:
    """Note the restarts that this tick's reports show. An agent that does not answer counts when it does."""
    since = _since(draft)
    if since is None:
        return draft
    record = draft.live.status
    candidate = _restarted(draft, candidates, since)
    control = _restarted(draft, controls, since)
    if not candidate and not control:
        return draft
    record = replace(
        record,
        restarts_candidate=record.restarts_candidate + len(candidate),
        restarts_control=record.restarts_control + len(control),
        restarts_repeated=record.restarts_repeated + len(candidate.keys() & record.restarted.keys()),
        restarted=record.restarted | candidate | control,
    )
    return with_record(draft, record)


def restarts_so_far(draft: Draft) -> Restarts:
    """The experiment's restarts as the guard takes them."""
    record = draft.live.status
    return Restarts(
        candidate=record.restarts_candidate,
        control=record.restarts_control,
        repeated=record.restarts_repeated,
    )


def _since(draft: Draft) -> float | None:
    """Since when the agents have been in their present arms."""
    record = draft.live.status
    if record.phase in (Phase.PROMOTING, Phase.WATCHING):
        return record.promoting_since
    return record.epoch.switch_at if record.epoch else None


def _restarted(draft: Draft, names: Iterable[str], since: float) -> dict[str, float]:
    """Agents with a start after `since` that was not counted yet."""
    found, counted = {}, draft.live.status.restarted
    for name in sorted(names):
        report = draft.report(name)
        if report is not None and report.started_at > max(since, counted.get(name, since)):
            found[name] = report.started_at
    return found
