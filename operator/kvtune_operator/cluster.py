"""The control plane in a cluster: composition root of `python -m kvtune_operator` and `kvtune operator`.

One replica holds the lease and works, the others stand by. A lost lease ends the process at once and restores
nothing: whoever holds the lease now goes on, and leases of candidates bring agents home.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator

from kvtune_operator.adapters.config_map import ConfigMapStore
from kvtune_operator.adapters.fetch import fetching
from kvtune_operator.adapters.kube import Kube, connect
from kvtune_operator.adapters.kube_credentials import configuration_of
from kvtune_operator.adapters.lease import Lease, LeaseLost
from kvtune_operator.adapters.lease_record import LeaseSettings
from kvtune_operator.clock import WallClock
from kvtune_operator.cluster_parts import Parts, TrustOf
from kvtune_operator.cluster_settings import ClusterSettings
from kvtune_operator.cluster_telemetry import ClusterTelemetry
from kvtune_operator.cluster_vitals import ClusterVitals, Stage
from kvtune_operator.handlers import Login
from kvtune_operator.health import create_app, served
from kvtune_operator.leader import Leader, LeaderEnd
from kvtune_operator.live_config import LiveConfig
from kvtune_operator.observed import Pulse

log = logging.getLogger(__name__)

STOPPED, LOST, FENCED = 0, 1, 7
"""Exit codes of an operator."""


async def run_cluster(settings: ClusterSettings, stop: asyncio.Event) -> int:
    """Stand by, lead, stop in good order; return STOPPED, LOST or FENCED.

    Raises `SpecError` (credentials that cannot be used) and `Unavailable` (the health port).
    """
    clock = WallClock()
    telemetry, pulse = ClusterTelemetry(), Pulse(started=clock.monotonic())
    vitals = ClusterVitals(
        pulse=pulse,
        telemetry=telemetry,
        monotonic=clock.monotonic,
        stuck_after_seconds=settings.stuck_after_seconds,
    )
    async with served(create_app(vitals), settings.health_host, settings.health_port) as address:
        log.info("health and metrics", extra={"address": address})
        async with _connections(settings, telemetry) as (kube, lease_kube):
            replica = _Replica(settings, clock, vitals, telemetry, stop)
            return await replica.run(kube, lease_kube)


@contextlib.asynccontextmanager
async def _connections(
    settings: ClusterSettings, telemetry: ClusterTelemetry
) -> AsyncIterator[tuple[Kube, Kube]]:
    """One for all, and one for the lease: renewals wait for nothing else, and give up sooner."""
    kubeconfig = settings.kubeconfig
    timeout = _lease_settings(settings).timeout_seconds
    async with (
        connect(kubeconfig, timeout_seconds=settings.api_timeout_seconds, on_call=telemetry.called) as kube,
        connect(kubeconfig, timeout_seconds=timeout, on_call=telemetry.called) as lease_kube,
    ):
        yield kube, lease_kube


def _lease_settings(settings: ClusterSettings) -> LeaseSettings:
    return LeaseSettings(
        namespace=settings.namespace,
        name=settings.lease_name,
        identity=f"{settings.pod_name}_{secrets.token_hex(4)}",
        duration_seconds=settings.lease_seconds,
    )


class _Replica:
    """One replica's life, from standing by to its end."""

    def __init__(
        self,
        settings: ClusterSettings,
        clock: WallClock,
        vitals: ClusterVitals,
        telemetry: ClusterTelemetry,
        stop: asyncio.Event,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._vitals = vitals
        self._telemetry = telemetry
        self._stop = stop

    async def run(self, kube: Kube, lease_kube: Kube) -> int:
        """Stand by for the lease, then work until the end; the lease is released unless it was lost."""
        wanted = _lease_settings(self._settings)
        lease = Lease(lease_kube, wanted, _Interruptible(self._clock, self._stop))
        self._vitals.stage = Stage.STANDBY
        log.info("standing by", extra={"lease": wanted.name, "identity": wanted.identity})
        try:
            if not await lease.acquire(self._stop):
                return STOPPED
            log.info("leading", extra={"lease": wanted.name, "identity": wanted.identity})
            return await self._lead(kube, lease)
        except LeaseLost as error:
            log.error("lease lost, everything is left as it is", extra={"error": str(error)})
            return LOST
        finally:
            self._telemetry.stopped()
            await lease.release()

    async def _lead(self, kube: Kube, lease: Lease) -> int:
        """Work while the lease is kept; when it is lost the work is cancelled where it stands."""
        keeping = asyncio.create_task(lease.keep(), name="lease")
        working = asyncio.create_task(self._work(kube, lease), name="leader")
        try:
            await asyncio.wait((keeping, working), return_when=asyncio.FIRST_COMPLETED)
            if keeping.done():
                keeping.result()
            return STOPPED if await working is LeaderEnd.STOPPED else FENCED
        finally:
            for task in (working, keeping):
                task.cancel()
            await asyncio.gather(working, keeping, return_exceptions=True)

    async def _work(self, kube: Kube, lease: Lease) -> LeaderEnd:
        settings, clock = self._settings, self._clock
        config = LiveConfig(
            ConfigMapStore(kube, namespace=settings.namespace, name=settings.config_map, now=clock.now),
            where=f"ConfigMap {settings.config_map}",
            show=self._telemetry.config_valid,
        )
        async with fetching(
            timeout_seconds=settings.http_timeout_seconds,
            parallel=settings.http_parallel,
            trust=TrustOf(config, clock),
        ) as fetcher:
            parts = Parts(
                kube=kube,
                fetcher=fetcher,
                settings=settings,
                clock=clock,
                rules=config,
                telemetry=self._telemetry,
                pulse=self._vitals.pulse,
            )
            leader = Leader(
                parts=parts,
                lease=lease,
                config=config,
                settings=settings,
                clock=clock,
                vitals=self._vitals,
                telemetry=self._telemetry,
                login=self._login,
            )
            try:
                return await leader.run(self._stop)
            finally:
                await parts.close()

    async def _login(self) -> Login:
        found = await configuration_of(self._settings.kubeconfig)
        return Login(
            server=str(found.host),
            ca_path=found.ssl_ca_cert,
            insecure=not found.verify_ssl,
            token=await found.get_api_key_with_prefix("BearerToken"),
            certificate_path=found.cert_file,
            private_key_path=found.key_file,
        )


class _Interruptible:
    """A clock whose sleeps end once, when the process is told to stop."""

    def __init__(self, clock: WallClock, stop: asyncio.Event) -> None:
        self._clock = clock
        self._stop = stop

    def monotonic(self) -> float:
        """The clock's."""
        return self._clock.monotonic()

    def unix_milliseconds(self) -> int:
        """The clock's."""
        return self._clock.unix_milliseconds()

    async def sleep(self, seconds: float) -> None:
        """Sleep; not longer than until the stop, if that is still to come."""
        if self._stop.is_set():
            await self._clock.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()
