"""Cache agents over HTTP: the port `Agents`. Agents are named by their address."""

import ipaddress
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from kvtune_api.codec import canonical, parse_json
from kvtune_api.errors import SpecError, Unavailable
from kvtune_api.policy import KVCachePolicy
from kvtune_api.wire import Push, Refusal, Report, Running
from kvtune_operator.adapters.fetch import REPORT_BYTES, Answer, Fetcher
from kvtune_operator.ports import Accepted, Agents, Discovered, Refused, Unreachable

TRY_AGAIN = frozenset({408, 425, 429})
"""4xx answers that are about the moment, not about the push."""


class TokenFile:
    """The write token, read anew whenever it is needed, so that it can be replaced at run time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> str:
        """The token; raise `Unavailable` naming the file (never its content)."""
        try:
            token = self._path.read_text(encoding="ascii").strip()
        except UnicodeDecodeError as error:
            raise Unavailable(f"{self._path}: the token is not ASCII text") from error
        except OSError as error:
            raise Unavailable(f"{self._path}: {error.strerror or error}") from error
        if not token:
            raise Unavailable(f"{self._path}: the file is empty, a token is needed")
        if not token.isprintable() or " " in token:
            raise Unavailable(f"{self._path}: the token must be one word of printable characters")
        return token


class HttpAgents(Agents):
    """Implement `ports.Agents` over the agents' HTTP interface."""

    def __init__(
        self, fetcher: Fetcher, token: TokenFile, *, addresses: Sequence[str] = (), insecure: bool = False
    ) -> None:
        """Use `addresses`, if any, in place of a selector's; `insecure` allows plain http beyond loopback."""
        self._fetcher = fetcher
        self._token = token
        self._addresses = tuple(addresses)
        self._insecure = insecure

    async def discover(self, policy: KVCachePolicy) -> Discovered:
        """The configured addresses, sorted, each once; nothing is asked of the network."""
        addresses = self._addresses or policy.spec.selector.addresses
        return Discovered(agents=tuple(sorted({normal(address) for address in addresses})))

    async def reports(self, agents: Sequence[str]) -> Mapping[str, Report | Unreachable]:
        """Ask every agent what it runs. Two addresses of one agent: only the first counts."""
        found = await self._fetcher.for_each(agents, self._report)
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
        """Send each agent its configuration; raise `Unavailable` when there is no token to send."""
        if not pushes:
            return {}
        headers = {"Authorization": f"Bearer {self._token.read()}"}

        async def send(agent: str) -> Accepted | Refused | Unreachable:
            if not self._insecure and (trouble := exposes_token(agent)):
                return Unreachable(message=trouble)
            url = f"{agent}/v1/config"
            body = canonical(pushes[agent]).encode()
            answer = await self._fetcher.put(url, body, limit_bytes=REPORT_BYTES, headers=headers)
            return answer if isinstance(answer, Unreachable) else _pushed(f"PUT {url}", answer)

        return await self._fetcher.for_each(tuple(pushes), send)

    async def _report(self, agent: str) -> Report | Unreachable:
        return await fetch_report(self._fetcher, f"{agent}/v1/report")


async def fetch_report(fetcher: Fetcher, url: str) -> Report | Unreachable:
    """GET a report; whatever is not one is `Unreachable` with URL, status and reason."""
    answer = await fetcher.get(url, limit_bytes=REPORT_BYTES, accept="application/json")
    if isinstance(answer, Unreachable):
        return answer
    if answer.status != 200:
        return _failed(f"GET {url}", answer)
    try:
        return parse_json(Report, answer.body)
    except SpecError as error:
        return _nonsense(f"GET {url}", answer, error)


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
    return f"{address}: the token is not sent over plain http to another machine (use https, or --insecure)"


def _pushed(what: str, answer: Answer) -> Accepted | Refused | Unreachable:
    if answer.status == 200:
        try:
            parse_json(Running, answer.body)
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
