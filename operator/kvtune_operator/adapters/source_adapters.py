"""Open the adapters of Prometheus and Pyroscope for resolved settings: what `SourcesOf` is given.

Used by the composition roots. Connections to Pyroscopes are shared and closed with `close`.
"""

from collections.abc import Callable
from datetime import datetime
from urllib.parse import urlsplit

import aiohttp

from kvtune_api.errors import Problem, SpecError
from kvtune_api.sources import PrometheusSource, PyroscopeSource, SecretName
from kvtune_operator.adapters.credentials import Provider, SecretCredentials, Secrets, no_credentials
from kvtune_operator.adapters.prometheus import PrometheusMetrics
from kvtune_operator.adapters.pyroscope import PyroscopeProfiles
from kvtune_operator.sources import Place

KEPT_CONNECTIONS = 32


class SourceAdapters:
    """Open adapters that share this process's clock, Secrets and connections."""

    def __init__(
        self,
        *,
        label_of: Callable[[str], str],
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        secrets: Secrets | None = None,
        operator_namespace: str | None = None,
    ) -> None:
        """`now` is unscaled; `secrets` (a `Kube`) is None where there are none (standalone)."""
        self._label_of = label_of
        self._now = now
        self._monotonic = monotonic
        self._secrets = secrets
        self._operator_namespace = operator_namespace
        self._session: aiohttp.ClientSession | None = None

    def prometheus(self, source: PrometheusSource, place: Place) -> PrometheusMetrics:
        """Metrics of a Prometheus; raise `SpecError` where its Secret cannot be read here."""
        return PrometheusMetrics(
            source,
            self._label_of,
            place.namespace,
            self._credentials(source.secret, place, "prometheus"),
            self._now,
            monotonic=self._monotonic,
            quotes=place.quotes,
        )

    def pyroscope(self, source: PyroscopeSource, place: Place) -> PyroscopeProfiles:
        """Profiles of a Pyroscope; raise `SpecError` where its Secret cannot be read here."""
        credentials = self._credentials(source.secret, place, "pyroscope")
        return PyroscopeProfiles(
            source, self._label_of, place.namespace, credentials, self._opened, quotes=place.quotes
        )

    async def close(self) -> None:
        """Close what is shared."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=KEPT_CONNECTIONS),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session

    def _credentials(self, secret: SecretName | None, place: Place, source: str) -> Provider:
        if secret is None:
            return no_credentials
        mine = place.secret_of_policy
        field = f"spec.metrics.{source}.secret" if mine else f"config.yaml: {source}.secret"
        namespace = place.namespace if mine else self._operator_namespace
        if self._secrets is None or namespace is None:
            raise SpecError(
                Problem(f"{field}.name", f"{secret.name!r}: Secrets can be read in a cluster only")
            )
        return SecretCredentials(
            self._secrets, namespace, secret.name, field=field, monotonic=self._monotonic
        )


def instance(agent: str) -> str:
    """The label `instance` that Prometheus gives a target which is an address."""
    parts = urlsplit(agent)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = parts.hostname or ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
