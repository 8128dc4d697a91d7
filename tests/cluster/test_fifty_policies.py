"""Fifty policies under one operator (case 30): all step, the lease is kept, nothing is written at rest.

How long steps take is measured by `make bench-kubernetes`, and not asserted here.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks.kubernetes_figures import WRITES
from tests.cluster.farm import TOKEN, opt_in
from tests.cluster.ground import standing
from tests.cluster.operators import ACCOUNT, Operator, Policies, rights
from tests.e2e.processes import until
from tools.controlplane.access import Access
from tools.controlplane.process import free_ports

POLICIES, AGENTS = 50, 2
ARGUMENTS = ("--lease=15", "--tick=5", "--http-timeout=30", "--log-level=debug")
"""Agents of a test may be slow on a busy machine, and that would be told of."""

SETTLING, STEPS_EACH = 2, 2
"""Steps of each policy until its figures have settled, and while nothing is to be written."""

NAMES = [f"p{number:02}" for number in range(POLICIES)]


@pytest.fixture
def agents(control_plane: Access, namespace: str, tmp_path: Path) -> Iterator[None]:
    """Two agents for each policy, all in one process."""
    [port] = free_ports(1)
    with standing(control_plane, namespace) as ground:
        node = ground.node("farm")
        ground.token(TOKEN)
        opt_in(control_plane, namespace, namespace)
        names = {}
        for place, name in enumerate(f"{policy}-{agent}" for policy in NAMES for agent in range(AGENTS)):
            address = f"127.3.{place // 200}.{place % 200 + 1}"
            names[address] = name
            ground.pod(name, node, at=(address, port), labels={"app": name[:3]})
        path = tmp_path / "agents.json"
        path.write_text(json.dumps(names))
        command = [sys.executable, "-m", "tests.benchmarks.kubernetes_agents", str(port), str(path), TOKEN]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline()
                yield
            finally:
                process.kill()


@pytest.mark.usefixtures("agents")
def test_case_30_fifty_policies_are_all_stepped_keep_the_lease_and_write_nothing_at_rest(
    control_plane: Access, namespace: str, tmp_path: Path
) -> None:
    policies = Policies(control_plane, namespace)
    for name in NAMES:
        policies.apply(name, paused=True)
    with rights(control_plane, namespace):
        operator = Operator(control_plane, namespace, tmp_path, "one", *ARGUMENTS)
        try:
            told = lambda: operator.err[-2000:]  # noqa: E731  # what it says when we give up
            until(lambda: _ready(policies) == POLICIES, "all agents of all policies answer", told)
            _until_stepped(operator, namespace, SETTLING)
            written = _writes(control_plane, namespace)
            _until_stepped(operator, namespace, STEPS_EACH)

            assert _writes(control_plane, namespace) == written
            assert "lease lost" not in operator.err
            assert operator.ready()
            assert operator.stop() == 0
        finally:
            operator.clean_up()


def _until_stepped(operator: Operator, namespace: str, times: int) -> None:
    """Wait until every policy has taken so many more steps."""
    before = _steps(operator)

    def stepped() -> bool:
        taken = _steps(operator) - before
        return all(taken[f"{namespace}/{name}"] >= times for name in NAMES)

    until(stepped, "every policy steps", lambda: operator.err[-2000:])


def _ready(policies: Policies) -> int:
    """How many policies have all their agents."""
    items = policies.access.call("GET", policies.path)["items"]
    return sum(item.get("status", {}).get("agentsReady") == AGENTS for item in items)


def _steps(operator: Operator) -> Counter[str]:
    """Steps by policy."""
    lines = [json.loads(line) for line in operator.err.splitlines() if '"event": "step"' in line]
    return Counter(str(line["policy"]) for line in lines)


def _writes(access: Access, namespace: str) -> list[str]:
    """What this test's operator has written but for its lease."""
    user = f"system:serviceaccount:{namespace}:{ACCOUNT}"
    entries = [json.loads(line) for line in access.audit_file.read_text().splitlines() if user in line]
    return [
        f"{entry['verb']} {entry['requestURI']}"
        for entry in entries
        if entry["verb"] in WRITES and "/leases" not in entry["requestURI"]
    ]
