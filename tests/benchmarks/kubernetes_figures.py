"""What the bench reads off an operator.

Its steps from its log, its processor time and memory from the kernel, its calls from its own counter and from
the API server's audit log.
"""

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx

from tests.cluster.operators import ACCOUNT
from tests.e2e.processes import Running
from tools.controlplane.access import Access

WRITES = frozenset({"create", "update", "patch", "delete"})
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of one policy."""

    at: float
    """When it ended, unix seconds."""

    policy: str
    seconds: float


class Replica(Running):
    """One operator's process, its steps in its log."""

    def __init__(
        self,
        access: Access,
        folder: Path,
        name: str,
        namespace: str,
        *,
        lease_seconds: float,
        tick_seconds: float,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        config = access.kubeconfig_for(ACCOUNT, namespace, folder)
        super().__init__(
            folder,
            name,
            "kvtune_operator",
            f"--kubeconfig={config}",
            f"--namespace={namespace}",
            f"--lease={lease_seconds:g}",
            f"--tick={tick_seconds:g}",
            "--health-host=127.0.0.1",
            "--health-port=0",
            "--log-level=debug",
        )

    def said(self) -> list[dict[str, object]]:
        """Its log."""
        return [json.loads(line) for line in self.err.splitlines() if line.startswith("{")]

    def steps(self) -> list[Step]:
        """Every step of every policy so far."""
        return [
            Step(at=moment(line), policy=str(line["policy"]), seconds=float(str(line["seconds"])))
            for line in self.said()
            if line["event"] == "step"
        ]

    def troubles(self) -> Counter[str]:
        """Warnings and errors, by what they say."""
        bad = ("WARNING", "ERROR")
        return Counter(
            f"{line['event']}: {line.get('error', '')}"[:160] for line in self.said() if line["level"] in bad
        )

    def processor_seconds(self) -> float:
        """Processor time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self) -> tuple[float, float]:
        """Resident memory now, and at most so far."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        now, most = (re.search(rf"{name}:\s+(\d+) kB", status) for name in ("VmRSS", "VmHWM"))
        assert now and most
        return int(now.group(1)) / 1024, int(most.group(1)) / 1024

    def calls(self) -> Counter[str]:
        """Its own count of calls to the API server, by verb and resource."""
        address = json.loads(self.until_said("health and metrics"))["address"]
        text = httpx.get(f"{address}/metrics", trust_env=False).text
        pattern = re.compile(
            r'^kvtune_\w*api_calls_total\{resource="([^"]*)",verb="([^"]*)"\} (\S+)', re.MULTILINE
        )
        return Counter({f"{verb} {what}": int(float(count)) for what, verb, count in pattern.findall(text)})


def moment(line: dict[str, object]) -> float:
    """When a line of a log was written, unix seconds."""
    return datetime.fromisoformat(str(line["time"])).timestamp()


def audited(access: Access, since: float, until: float) -> Counter[str]:
    """Requests of the operator that the API server has answered between two moments, by verb and resource."""
    found: Counter[str] = Counter()
    for line in access.audit_file.read_text().splitlines():
        entry = json.loads(line)
        if not str(entry["user"].get("username", "")).endswith(f":{ACCOUNT}"):
            continue
        if since <= datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp() < until:
            what = entry.get("objectRef", {})
            resource = "/".join(filter(None, (what.get("resource", ""), what.get("subresource", ""))))
            found[f"{entry['verb']} {resource}"] += 1
    return found


def without_lease(calls: Counter[str]) -> Counter[str]:
    """Calls but those that hold the lease, which are the same however many policies there are."""
    return Counter({name: count for name, count in calls.items() if "leases" not in name})


def writes(calls: Counter[str]) -> int:
    """How many of the calls write."""
    return sum(count for name, count in calls.items() if name.split(" ")[0] in WRITES)


def quantile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed; NaN of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def milliseconds(values: Sequence[float], share: float) -> str:
    """A quantile of seconds, as tables show it."""
    return f"{1000 * quantile(values, share):.0f}" if values else "-"
