"""Start etcd, the API server and, where wanted, the controllers and the scheduler, all on loopback.

Some 5 s to a ready API server, 3 s more for the controllers. Everything lies in one folder, and everything
ends with the process that started it, even when that is killed (process.py). Nothing here is for production:
etcd does not wait for the disk, and the admin's token is a file.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools.controlplane.access import Access, write_kubeconfig
from tools.controlplane.binaries import built
from tools.controlplane.errors import NotStarted
from tools.controlplane.keys import write_admin_token, write_audit_policy, write_signing_key
from tools.controlplane.process import Process, free_ports, stop_all

PORT_TAKEN = "address already in use"
ATTEMPTS = 3
ISSUER = "https://kubernetes.default.svc"
SERVICES = "10.96.0.0/16"

Stage = tuple[Process, Callable[[], bool]]


class ControlPlane:
    """A control plane in a folder; starts when entered (`with` or `async with`) and ends when left.

    Enter it in a thread that lives as long as it should: its processes end with that thread.
    Raises NotBuilt (nothing to start) and NotStarted (which process, and the end of its log).
    """

    def __init__(
        self, folder: Path, *, controllers: bool, scheduler: bool, binaries: Path | None = None
    ) -> None:
        self._folder = folder
        self._controllers = controllers
        self._scheduler = scheduler
        self._binaries = binaries
        self._access: Access | None = None
        self._processes: list[Process] = []

    @property
    def access(self) -> Access:
        """Everything a client needs; the same names are attributes of this object."""
        if self._access is None:
            raise NotStarted("the control plane was not started")
        return self._access

    @property
    def url(self) -> str:
        """https://127.0.0.1:port"""
        return self.access.url

    @property
    def ca_file(self) -> Path:
        """The certificate that the API server's own is signed with."""
        return self.access.ca_file

    @property
    def admin_token(self) -> str:
        """A token of a user in system:masters."""
        return self.access.admin_token

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig of that user."""
        return self.access.kubeconfig

    @property
    def processes(self) -> Mapping[str, Process]:
        """What runs, by name, to be frozen, killed or started again by a test."""
        return {process.name: process for process in self._processes}

    def token_for(self, service_account: str, namespace: str) -> str:
        """Return a token of a ServiceAccount by TokenRequest."""
        return self.access.token_for(service_account, namespace)

    def kubeconfig_for(self, service_account: str, namespace: str, folder: Path) -> Path:
        """Write a kubeconfig with a token of a ServiceAccount."""
        return self.access.kubeconfig_for(service_account, namespace, folder)

    def __enter__(self) -> Self:
        for attempt in range(ATTEMPTS):
            try:
                for process, ready in self._prepare():
                    process.start()
                    process.wait_ready(ready)
            except NotStarted as error:
                self._again_or_raise(error, attempt)
            except BaseException:
                self.stop()
                raise
            else:
                break
        return self

    async def __aenter__(self) -> Self:
        for attempt in range(ATTEMPTS):
            try:
                for process, ready in self._prepare():
                    process.start()  # in this thread: a thread of the pool may end before us
                    await asyncio.to_thread(process.wait_ready, ready)
            except NotStarted as error:
                self._again_or_raise(error, attempt)
            except BaseException:
                self.stop()
                raise
            else:
                break
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def stop(self) -> None:
        """End every process; the folder stays."""
        stop_all(self._processes)

    def _again_or_raise(self, error: NotStarted, attempt: int) -> None:
        taken = any(PORT_TAKEN in process.log() for process in self._processes)
        self.stop()
        if not taken or attempt + 1 == ATTEMPTS:
            raise error

    def _prepare(self) -> Sequence[Stage]:
        """Write the files and return the processes in the order of their start, each with its readiness."""
        binaries = self._binaries or built()
        self._folder.mkdir(parents=True, exist_ok=True)
        etcd_port, peer_port, api_port = free_ports(3)
        keys = self._folder / "keys"
        keys.mkdir(mode=0o700, exist_ok=True)
        if not (keys / "service-accounts.key").exists():
            write_signing_key(keys / "service-accounts.key")
        write_audit_policy(self._folder / "audit-policy.json")
        access = Access(
            url=f"https://127.0.0.1:{api_port}",
            ca_file=keys / "apiserver.crt",
            admin_token=write_admin_token(keys / "tokens.csv"),
            kubeconfig=self._folder / "admin.kubeconfig",
            binaries=binaries,
            audit_file=self._folder / "audit.log",
        )
        write_kubeconfig(access.kubeconfig, url=access.url, ca_file=access.ca_file, token=access.admin_token)
        self._access = access
        stages = self._stages(binaries, access, (etcd_port, peer_port, api_port))
        self._processes = [process for process, _ in stages]
        for process in self._processes:
            process.log_file.unlink(missing_ok=True)
        return stages

    def _stages(self, binaries: Path, access: Access, ports: tuple[int, int, int]) -> list[Stage]:
        etcd = self._process(binaries, "etcd", _etcd_flags(self._folder, *ports[:2]))
        api = self._process(binaries, "kube-apiserver", _api_server_flags(self._folder, ports[0], ports[2]))
        stages: list[Stage] = [(etcd, lambda: True), (api, lambda: access.reads("/readyz"))]
        client = {"kubeconfig": access.kubeconfig, "leader-elect": "false", "secure-port": 0}
        if self._controllers:
            flags = {**client, **_controller_flags(self._folder / "keys")}
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            manager = self._process(binaries, "kube-controller-manager", flags)
            stages.append((manager, lambda: access.reads(account)))
        if self._scheduler:
            stages.append((self._process(binaries, "kube-scheduler", client), lambda: True))
        return stages

    def _process(self, binaries: Path, name: str, flags: Mapping[str, Any]) -> Process:
        command = [binaries / name, *(f"--{flag}={value}" for flag, value in flags.items())]
        return Process(name, command, folder=self._folder)


def _etcd_flags(folder: Path, client_port: int, peer_port: int) -> Mapping[str, Any]:
    client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
    return {
        "data-dir": folder / "etcd",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        "unsafe-no-fsync": "true",
        "log-level": "warn",
    }


def _api_server_flags(folder: Path, etcd_port: int, port: int) -> Mapping[str, Any]:
    keys = folder / "keys"
    return {
        "etcd-servers": f"http://127.0.0.1:{etcd_port}",
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "secure-port": port,
        "cert-dir": keys,
        "service-account-issuer": ISSUER,
        "service-account-key-file": keys / "service-accounts.key",
        "service-account-signing-key-file": keys / "service-accounts.key",
        "service-cluster-ip-range": SERVICES,
        "authorization-mode": "RBAC",
        "enable-admission-plugins": "OwnerReferencesPermissionEnforcement",  # as on stricter clusters
        "token-auth-file": keys / "tokens.csv",
        "allow-privileged": "true",
        "profiling": "false",
        "audit-policy-file": folder / "audit-policy.json",
        "audit-log-path": folder / "audit.log",
        "audit-log-mode": "blocking",
        "shutdown-delay-duration": "0s",
    }


def _controller_flags(keys: Path) -> Mapping[str, Any]:
    return {
        "controllers": "*,-nodeipam,-route,-service",
        "use-service-account-credentials": "true",
        "service-account-private-key-file": keys / "service-accounts.key",
        "root-ca-file": keys / "apiserver.crt",
        "profiling": "false",
    }
