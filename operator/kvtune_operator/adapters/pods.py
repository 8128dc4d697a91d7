"""Cache agents as pods of one namespace: the port `Agents` in a cluster. Agents are named by their pod.

Nodes and pods come from the inventory (memory, no call); agents are asked over HTTP at their pods' addresses.
Who is found, who is about to leave and why is pod_choice.py's; this joins the two.
"""

from collections.abc import Callable, Mapping, Sequence

from kvtune_api.errors import Unavailable
from kvtune_api.names import Reason
from kvtune_api.operator_config import AgentAccess
from kvtune_api.policy import KVCachePolicy, Mode
from kvtune_api.wire import Push, Report
from kvtune_operator.adapters.agents import HttpAgents, WriteToken
from kvtune_operator.adapters.fetch import Fetcher
from kvtune_operator.adapters.inventory import View
from kvtune_operator.adapters.kube_errors import NotAllowed
from kvtune_operator.adapters.pod_choice import Choice, choose, departures, shortfall, still_agents
from kvtune_operator.adapters.pod_records import NodeSeen, PodSeen
from kvtune_operator.ports import Accepted, Agents, Clock, Discovered, Refused, Rivals, Unreachable
from kvtune_tuner.model import PoolSeen


class PodAgents(Agents):
    """Implement `ports.Agents` for the policies of one namespace."""

    def __init__(
        self,
        view: View,
        fetcher: Fetcher,
        token: WriteToken,
        *,
        rivals: Rivals,
        access: Callable[[], AgentAccess],
        clock: Clock,
    ) -> None:
        """`access` is read at each use: how agents are reached may change while we run."""
        self._view = view
        self._fetcher = fetcher
        self._token = token
        self._rivals = rivals
        self._access = access
        self._clock = clock

    async def discover(self, policy: KVCachePolicy, *, also: Sequence[str] = ()) -> Discovered:
        """The pods that the policy selects and no older one does, and of `also` those that are agents still.

        Raises `Unavailable` when nodes or pods are not known now.
        A right that is lacking is a reason for a policy at rest; while an experiment is live it is
        `Unavailable`, for agents that cannot be seen have not left.
        """
        try:
            pods = await self._view.pods.records()
            nodes = await self._nodes(policy)
        except NotAllowed as error:
            if policy.status is not None and policy.status.experiment is not None:
                raise
            return Discovered(agents=(), pool=PoolSeen(reason=Reason.FORBIDDEN, message=str(error)))
        choice = choose(policy.spec.selector, pods, nodes)
        short = shortfall(policy.spec.selector, self._view.namespace, choice, nodes)
        reason, message = short or await self._no_token(policy, choice) or (None, "")
        agents = {pod.name: pod for pod in (*choice.agents, *still_agents(also, pods))}
        contested = self._contested(policy, agents, nodes)
        ours = [pod for pod in agents.values() if pod.name not in contested]
        return Discovered(
            agents=tuple(sorted(pod.name for pod in ours)),
            pool=PoolSeen(
                leaving=departures(ours, nodes or {}, self._clock.now()),
                contested=contested,
                reason=reason,
                message=message,
            ),
        )

    async def reports(self, agents: Sequence[str]) -> Mapping[str, Report | Unreachable]:
        """Ask every agent what it runs, at its pod's address."""
        return await self._http().reports(agents)

    async def push(self, pushes: Mapping[str, Push]) -> Mapping[str, Accepted | Refused | Unreachable]:
        """Send each agent its configuration; raise `Unavailable` when there is no token to send."""
        return await self._http().push(pushes)

    async def restore(self, agents: Sequence[str]) -> Mapping[str, Accepted | Refused | Unreachable]:
        """Let agents run their eviction policy again; raise `Unavailable` when there is no token to send."""
        return await self._http().restore(agents)

    def address_of(self, agent: str) -> str | Unreachable:
        """Where an agent's pod serves, or why that is not known."""
        pod = self._view.pods.record(agent)
        if pod is None:
            return Unreachable(message=f"pod {agent}: is gone")
        if pod.port is None:
            return Unreachable(message=f"pod {agent}: has no container port of an agent any more")
        if not pod.ip:
            return Unreachable(message=f"pod {agent}: has no address: {pod.trouble or pod.phase}")
        scheme = "https" if self._access().tls else "http"
        host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
        return f"{scheme}://{host}:{pod.port}"

    async def _no_token(self, policy: KVCachePolicy, choice: Choice) -> tuple[Reason, str] | None:
        """Why nothing could be pushed to these agents; the token is made now, so that others find it."""
        if not choice.agents or policy.spec.mode is Mode.OBSERVE:
            return None
        try:
            await self._token.current()
        except NotAllowed as error:
            return Reason.FORBIDDEN, str(error)
        except Unavailable as error:
            return Reason.NO_TOKEN, str(error)
        return None

    def _http(self) -> HttpAgents:
        return HttpAgents(
            self._fetcher, self._token, address_of=self.address_of, insecure=self._access().insecure
        )

    async def _nodes(self, policy: KVCachePolicy) -> Mapping[str, NodeSeen] | None:
        """All nodes; None where we may not see them and the policy does not choose by them."""
        try:
            return await self._view.nodes.records()
        except NotAllowed as error:
            if not policy.spec.selector.nodes.match_labels:
                return None
            raise NotAllowed(
                f"{error}: spec.selector.nodes needs it, leave it out or give that right"
            ) from error

    def _contested(
        self,
        policy: KVCachePolicy,
        ours: Mapping[str, PodSeen],
        nodes: Mapping[str, NodeSeen] | None,
    ) -> dict[str, str]:
        """Agents that an older policy selects too, and its name."""
        found: dict[str, str] = {}
        for rival in self._rivals.older(policy):
            if rival.spec.selector.nodes.match_labels and nodes is None:
                continue
            for pod in choose(rival.spec.selector, ours, nodes).agents:
                found.setdefault(pod.name, rival.metadata.name)
        return found
