"""The farm itself: its agents are found by a real operator, and tests see what they were told."""

from pathlib import Path

from tests.cluster.farm import Herd, farm, short
from tests.cluster.operators import Operator, Policies, rights
from tests.e2e.processes import until
from tools.controlplane.access import Access


def test_an_operator_finds_the_agents_of_a_farm_and_gives_them_their_start(
    control_plane: Access, namespace: str, tmp_path: Path
) -> None:
    few = Herd(name="few", agents=3, start={"cacheTTL": 45.0})
    policies = Policies(control_plane, namespace)
    with rights(control_plane, namespace), farm(control_plane, namespace, tmp_path, few) as made:
        policies.apply("few", **short())
        operator = Operator(control_plane, namespace, tmp_path, "operator")
        try:
            until(
                lambda: policies.condition("few", "AgentsReady").get("status") == "True",
                "agents are ready",
                lambda: policies.get("few"),
            )
            until(
                lambda: all(agent["config"]["cacheTTL"] == "30s" for agent in made.agents("few").values()),
                "agents run the start of the policy",
                lambda: (made.agents(), policies.get("few")),
            )
            assert operator.stop() == 0
        finally:
            operator.clean_up()
    assert not made.process.alive
