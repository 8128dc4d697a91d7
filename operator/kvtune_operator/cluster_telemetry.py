"""The metrics of an operator beside those of its policies: leadership, API calls, settings, bugs."""

from prometheus_client import Counter, Gauge

from kvtune_api.names import LABEL_POLICY, LABEL_RESOURCE, LABEL_VERB, Metric
from kvtune_operator.telemetry import Telemetry


class ClusterTelemetry(Telemetry):
    """Every metric of one operator. A policy's label is `namespace/name`."""

    def __init__(self) -> None:
        super().__init__()
        new = self.registry
        calls = [LABEL_VERB, LABEL_RESOURCE]
        self._calls = Counter(Metric.CONTROL_API_CALLS, "Calls to the API server.", calls, registry=new)
        self._leader = Gauge(Metric.CONTROL_LEADER, "1 while this replica holds the lease.", registry=new)
        self._policies = Gauge(Metric.CONTROL_POLICIES, "Policies that have a task.", registry=new)
        self._live = Gauge(Metric.CONTROL_LIVE, "Experiments that run.", registry=new)
        self._token = Gauge(Metric.CONTROL_TOKEN, "Fencing token of this replica.", registry=new)
        self._valid = Gauge(
            Metric.CONTROL_CONFIG_VALID, "1 while the operator's settings are valid.", registry=new
        )
        self._bugs = Counter(Metric.CONTROL_BUGS, "Steps that failed by a bug.", [LABEL_POLICY], registry=new)

    def called(self, verb: str, resource: str) -> None:
        """Count a call to the API server."""
        self._calls.labels(verb, resource).inc()

    def leads(self, token: int) -> None:
        """Show that this replica works, with its fencing token."""
        self._leader.set(1)
        self._token.set(token)

    def stopped(self) -> None:
        """Show that this replica does not work (any more)."""
        self._leader.set(0)

    def holds(self, policies: int, live: int) -> None:
        """Show how many policies and experiments there are."""
        self._policies.set(policies)
        self._live.set(live)

    def config_valid(self, valid: bool) -> None:
        """Show whether the operator's settings are valid."""
        self._valid.set(valid)

    def bug(self, policy: str) -> None:
        """Count a step that failed by a bug."""
        self._bugs.labels(policy).inc()
