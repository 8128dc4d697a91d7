"""Cache agents over HTTP: the port `Agents` where agents are named by their address.

In a cluster agents have names of their own; pods.py finds them and says where each one is.
"""

import ipaddress
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from kvtune_api.codec import canonical, parse_json
from kvtune_api.errors import SpecError, Unavailable
from kvtune_api.policy import KVCachePolicy
from kvtune_api.wire import Push, Refusal, Report, Running
from kvtune_operator.adapters.fetch import REPORT_BYTES, Answer, Fetcher
from kvtune_operator.ports import Accepted, Agents, Discovered, Refused, Unreachable

TRY_AGAIN = frozenset({408, 425, 429})
"""4xx answers that are about the moment, not about the push."""


AddressOf = Callable[[str], str | Unreachable]
"""Where an agent is, by its name: `http(s)://host:port`, or why that is not known."""

UNAUTHORIZED = 401

_Taken = Accepted | Refused | Unreachable
_Write = Callable[[str, str, Mapping[str, str]], Awaitable[_Taken]]
"""Write to an agent at an address with these headers."""


def itself(agent: str) -> str:
    """The address of an agent that is named by its address."""
    return agent


class WriteToken(Protocol):
    """Where the token comes from that agents accept for writes."""

    async def current(self, *, refused: str | None = None) -> str:
        """The token, read anew when it is `refused`; raise `Unavailable` saying where it is lacking."""
        ...


class TokenFile(WriteToken):
    """The write token, read anew whenever it is needed, so that it can be replaced at run time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def current(self, *, refused: str | None = None) -> str:
        """The token as the file has it now."""
        return self.read()

    def read(self) -> str:
        """The token; raise `Unavailable` naming the file (never its content)."""
        try:
            text = self._path.read_text(encoding="ascii")
        except UnicodeDecodeError as error:
            raise Unavailable(f"{self._path}: the token is not ASCII text") from error
        except OSError as error:
            raise Unavailable(f"{self._path}: {error.strerror or error}") from error
        return one_word(str(self._path), text)


def one_word(where: str, text: str) -> str:
    """A token without the blanks around it; raise `Unavailable` naming where it is from, never what it is."""
    token = text.strip()
    if not token:
        raise Unavailable(f"{where}: is empty, a token is needed")
    if not token.isprintable() or " " in token:
        raise Unavailable(f"{where}: the token must be one word of printable characters")
    return token


class HttpAgents(Agents):
    """Implement `ports.Agents` over the agents' HTTP interface."""

    def __init__(
        self,
        fetcher: Fetcher,
        token: WriteToken,
        *,
        addresses: Sequence[str] = (),
        address_of: AddressOf = itself,
        insecure: bool = False,
    ) -> None:
        """Use `addresses`, if any, in place of a selector's; `insecure` allows plain http beyond loopback."""
        self._fetcher = fetcher
        self._token = token
        self._addresses = tuple(addresses)
        self._address_of = address_of
        self._insecure = insecure

    async def discover(self, policy: KVCachePolicy, *, also: Sequence[str] = ()) -> Discovered:
        """The configured addresses and `also`, sorted, each once; nothing is asked of the network."""
        addresses = self._addresses or policy.spec.selector.addresses
        return Discovered(agents=tuple(sorted({normal(address) for address in (*addresses, *also)})))

    async def reports(self, agents: Sequence[str]) -> Mapping[str, Report | Unreachable]:
        """Ask every agent what it runs. Two addresses of one agent: only the first counts."""
        found = await self._fetcher.for_each(
            agents, lambda agent: fetch_report(self._fetcher, agent, self._address_of)
        )
        by_process: dict[tuple[str, float], list[str]] = defaultdict(list)
        for name, report in found.items():
            if isinstance(report, Report):
                by_process[report.agent, report.started_at].append(name)
        twins = {name: names[0] for names in by_process.values() for name in names[1:]}
        return found | {
            name: Unreachable(message=f"{name}: is the same agent as {first}")
            for name, first in twins.items()
        }

    async def push(self, pushes: Mapping[str, Push]) -> Mapping[str, Accepted | Refused | Unreachable]:
        """Send each agent its configuration; raise `Unavailable` when there is no token to send.

        Where agents refuse the token it is read anew, and if it has changed they are asked once more.
        """
        bodies = {push: canonical(push).encode() for push in set(pushes.values())}

        async def put(agent: str, address: str, headers: Mapping[str, str]) -> _Taken:
            url, body = f"{address}/v1/config", bodies[pushes[agent]]
            answer = await self._fetcher.put(url, body, limit_bytes=REPORT_BYTES, headers=headers)
            return answer if isinstance(answer, Unreachable) else _taken(f"PUT {url}", answer, Running)

        return await self._authorized(tuple(pushes), put)

    async def restore(self, agents: Sequence[str]) -> Mapping[str, Accepted | Refused | Unreachable]:
        """Let each agent run its eviction policy again; the token is that of `push`."""

        async def post(_agent: str, address: str, headers: Mapping[str, str]) -> _Taken:
            url = f"{address}/v1/eviction/restore"
            answer = await self._fetcher.post(url, b"", limit_bytes=REPORT_BYTES, headers=headers)
            return answer if isinstance(answer, Unreachable) else _taken(f"POST {url}", answer, Report)

        return await self._authorized(agents, post)

    async def _authorized(self, agents: Sequence[str], write: _Write) -> dict[str, _Taken]:
        """Write to agents with the token; those that refuse it are asked once more when there is another."""
        if not agents:
            return {}
        token = await self._token.current()
        answers = await self._written(agents, write, token)
        refused = [agent for agent, answer in answers.items() if _is_unauthorized(answer)]
        newer = await self._token.current(refused=token) if refused else token
        if newer == token:
            return answers
        return answers | await self._written(refused, write, newer)

    async def _written(self, agents: Sequence[str], write: _Write, token: str) -> dict[str, _Taken]:
        async def one(agent: str) -> _Taken:
            address = self._address_of(agent)
            if isinstance(address, Unreachable):
                return address
            if not self._insecure and (trouble := exposes_token(address)):
                return Unreachable(message=trouble)
            return await write(agent, address, {"Authorization": f"Bearer {token}"})

        return await self._fetcher.for_each(tuple(agents), one)


async def fetch_report(
    fetcher: Fetcher, agent: str, address_of: AddressOf = itself, query: str = ""
) -> Report | Unreachable:
    """GET an agent's report; whatever is not one is `Unreachable` with URL, status and reason.

    An agent with a name of its own must report that name: addresses of pods are used again by others.
    """
    address = address_of(agent)
    if isinstance(address, Unreachable):
        return address
    url = f"{address}/v1/report{query}"
    answer = await fetcher.get(url, limit_bytes=REPORT_BYTES, accept="application/json")
    if isinstance(answer, Unreachable):
        return answer
    if answer.status != 200:
        return _failed(f"GET {url}", answer)
    try:
        report = parse_json(Report, answer.body)
    except SpecError as error:
        return _nonsense(f"GET {url}", answer, error)
    if agent != address and report.agent != agent:
        return Unreachable(message=f"GET {url}: another agent, {report.agent}, answers there, not {agent}")
    return report


def normal(address: str) -> str:
    """An address as a name: no slash at the end, lower case."""
    return address.rstrip("/").lower()


def exposes_token(address: str) -> str | None:
    """Why a token must not be sent to an address, if so: plain http leaves this machine readable."""
    parts = urlsplit(address)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return None
    try:
        if parts.hostname and ipaddress.ip_address(parts.hostname).is_loopback:
            return None
    except ValueError:
        pass
    return (
        f"{address}: the token is not sent over plain http to another machine "
        "(use https, or --insecure; in a cluster agents.tls, or agents.insecure)"
    )


def _is_unauthorized(answer: Accepted | Refused | Unreachable) -> bool:
    return isinstance(answer, Refused) and answer.status == UNAUTHORIZED


def _taken(what: str, answer: Answer, body: type[Running] | type[Report]) -> _Taken:
    if answer.status == 200:
        try:
            parse_json(body, answer.body)
        except SpecError as error:
            return _nonsense(what, answer, error)
        return Accepted()
    if not 400 <= answer.status < 500 or answer.status in TRY_AGAIN:
        return _failed(what, answer)
    refusal = _refusal(answer)
    if refusal is None:
        message = f"{what}: HTTP {answer.status} {answer.shown}".strip()
        return Refused(status=answer.status, reason="Unknown", message=message)
    message = f"{what}: HTTP {answer.status} {refusal.reason}: {refusal.message}"
    return Refused(status=answer.status, reason=refusal.reason, message=message)


def _failed(what: str, answer: Answer) -> Unreachable:
    refusal = _refusal(answer)
    text = f"{refusal.reason}: {refusal.message}" if refusal else answer.shown
    return Unreachable(message=f"{what}: HTTP {answer.status} {text}".strip())


def _nonsense(what: str, answer: Answer, error: SpecError) -> Unreachable:
    first = error.problems[0]
    kind = f" ({answer.content_type})" if answer.content_type != "application/json" else ""
    return Unreachable(message=f"{what}: HTTP {answer.status}{kind} is not what an agent answers: {first}")


def _refusal(answer: Answer) -> Refusal | None:
    try:
        return parse_json(Refusal, answer.body)
    except SpecError:
        return None
