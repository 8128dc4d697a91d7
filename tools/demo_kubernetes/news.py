"""Tell what is new in the cluster: tables of `kubectl get`, events and hints, in lines that fit."""

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

PREFIX = "demo-kubernetes: "
COLUMNS = 120
QUIET_SECONDS = 30.0
"""SLIs wobble all the time: without other news a policy's row is printed this often."""

AGE = re.compile(r"\b(\d+[smhd])+\b *")
"""An age moves all the time; it makes no news."""

DROPPED = re.compile(r"(\d+) of (\d+) pairs do not count \(AgentLeft")
FRUITLESS = frozenset({"NoData", "Underpowered"})
BUSY = (
    "hint: most pairs are lost, or too few requests are measured: this machine may be too busy for 8 agents"
    " and their traffic. End what else runs (`uptime`), then `make down` and start again."
)
LEGEND = """how to read the tables:
  RunIn    both arms run the same configuration: the noise is measured; then the experiment proper
  TTFT     `53% <250ms (90%)`: 53 % of the requests were faster than the limit, 90 % are asked for
  EFFECT   candidate minus incumbent, in points of hit rate after prices, with its interval
  E-VALUE  x/20: the evidence for the candidate; at 20 it is promoted when no target is at risk
  DELTAS   n/max: compared pairs of agents and epochs so far, and at most"""

Say = Callable[[str], None]
Object = Mapping[str, Any]


class Tool(Protocol):
    """What is asked of kubectl."""

    def __call__(self, *arguments: str) -> str:
        """What it prints."""
        ...

    def items(self, kind: str, *arguments: str) -> list[dict[str, Any]]:
        """Objects of a kind."""
        ...


@dataclass(slots=True, kw_only=True)
class Told:
    """What has been printed already, so that only news is."""

    policies: str = ""
    experiment: str = ""
    table: str = ""
    table_at: float = 0.0
    events: set[str] = field(default_factory=set)
    hinted: bool = False


def tell_news(say: Say, kubectl: Tool, told: Told, elapsed_s: float) -> str | None:
    """Print what is new; the promoted experiment with its message once there is one."""
    found = kubectl.items("kvp,kvx")
    policies = [item for item in found if item["kind"] == "KVCachePolicy"]
    experiments = sorted(
        (item for item in found if item["kind"] == "KVCacheExperiment"), key=lambda item: _name(item)
    )
    events = [item for item in kubectl.items("events") if _is_of_a_policy(item)]
    _tell_events(say, events, told, elapsed_s)
    _tell_policies(say, kubectl, policies, told, elapsed_s)
    if experiments:
        _tell_experiment(say, kubectl, experiments[-1], told, elapsed_s)
    if not told.hinted and (_most_pairs_dropped(events) or any(_fruitless(item) for item in experiments)):
        told.hinted = True
        say(wrapped(BUSY))
    return next((f"{_name(x)}: {_status(x).get('message', '')}" for x in experiments if _won(x)), None)


def wrapped(text: str, indent: str = "  ") -> str:
    """Lines that fit the terminal behind the demo's own prefix."""
    return textwrap.fill(
        text,
        COLUMNS,
        initial_indent=" " * len(PREFIX),
        subsequent_indent=indent,
        break_on_hyphens=False,
    )[len(PREFIX) :]


def _tell_events(say: Say, events: Sequence[Object], told: Told, elapsed_s: float) -> None:
    for item in sorted(events, key=lambda item: str(item.get("firstTimestamp"))):
        kind = "" if item["type"] == "Normal" else f"{item['type']} "
        line = f"event  {kind}{item['reason']}: {item['message']}"
        if line not in told.events:
            told.events.add(line)
            say(wrapped(f"{_at(elapsed_s)}  {line}", " " * 10))


def _tell_policies(say: Say, kubectl: Tool, policies: Sequence[Object], told: Told, elapsed_s: float) -> None:
    key = repr([_news_of_policy(item) for item in policies])
    if key == told.policies and elapsed_s - told.table_at < QUIET_SECONDS:
        return
    table = kubectl("get", "kvp")
    if key == told.policies and _ageless(table) == told.table:
        return
    told.policies, told.table, told.table_at = key, _ageless(table), elapsed_s
    say(f"{_at(elapsed_s)}  $ kubectl get kvp\n{_cut(table)}")


def _tell_experiment(say: Say, kubectl: Tool, last: Object, told: Told, elapsed_s: float) -> None:
    key = repr(_news_of_experiment(last))
    if key == told.experiment:
        return
    told.experiment = key
    say(f"{_at(elapsed_s)}  $ kubectl get kvx {_name(last)}\n{_cut(kubectl('get', 'kvx', _name(last)))}")


def _news_of_policy(item: Object) -> list[object]:
    status = _status(item)
    names = ("phase", "experiment", "lastOutcome")
    return [_name(item), *(status.get(name) for name in names), _conditions(status)]


def _news_of_experiment(item: Object) -> list[object]:
    status = _status(item)
    shown: Object = status.get("shown") or {}
    names = ("phase", "outcome", "reason")
    return [_name(item), *(status.get(n) for n in names), shown.get("eValue"), shown.get("deltas")]


def _conditions(status: Object) -> list[tuple[object, ...]]:
    return [(c.get("type"), c.get("status"), c.get("reason")) for c in status.get("conditions") or ()]


def _most_pairs_dropped(events: Sequence[Object]) -> bool:
    counts = [DROPPED.search(str(item["message"])) for item in events if item["reason"] == "EpochDropped"]
    return any(int(found[1]) * 2 > int(found[2]) for found in counts if found)


def _fruitless(item: Object) -> bool:
    return _status(item).get("reason") in FRUITLESS or _status(item).get("outcome") in FRUITLESS


def _won(item: Object) -> bool:
    return bool(_status(item).get("outcome") == "Promoted")


def _is_of_a_policy(item: Object) -> bool:
    """Each event of an experiment stands on its policy, too."""
    about = item.get("involvedObject", {})
    return str(about.get("apiVersion", "")).startswith("kvtune.dev/") and about.get("kind") == "KVCachePolicy"


def _status(item: Object) -> Object:
    found: Object = item.get("status") or {}
    return found


def _name(item: Object) -> str:
    return str(item["metadata"]["name"])


def _at(elapsed_s: float) -> str:
    return f"{elapsed_s:4.0f} s"


def _ageless(table: str) -> str:
    return " ".join(AGE.sub("", table).split())


def _cut(table: str) -> str:
    lines = [line.rstrip() for line in table.splitlines() if line.strip()]
    return "\n".join(line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}…" for line in lines)
