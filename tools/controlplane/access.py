"""What a client of the API server needs: address, certificate, tokens, and kubeconfig files for anyone.

Requests here are synchronous, one connection each: enough to start things and to ask for tokens.
"""

import http.client
import json
import os
import ssl
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from tools.controlplane.errors import Answered

TIMEOUT_SECONDS = 30.0
TOKEN_SECONDS = 24 * 3600
CONTENT_TYPE_OF = {
    "PATCH": "application/merge-patch+json",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A running control plane, as a client with every right sees it."""

    url: str
    """https://127.0.0.1:port"""

    ca_file: Path
    admin_token: str
    """Of a user in the group system:masters."""

    kubeconfig: Path
    binaries: Path
    audit_file: Path
    """One JSON object a line for every request that did not come from the control plane itself."""

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, token: str | None = None
    ) -> dict[str, Any]:
        """Send one request with the admin's token, or another; raises Answered for 4xx and 5xx.

        The body of a PATCH is a merge patch. OSError when the server does not answer.
        """
        status, text = self._exchange(method, path, body, token or self.admin_token)
        answer = json.loads(text) if text.startswith(b"{") else {"text": text.decode(errors="replace")}
        if status >= http.client.BAD_REQUEST:
            raise Answered(status, str(answer.get("reason", "")), str(answer.get("message", answer)))
        return dict(answer)

    def _exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None, token: str
    ) -> tuple[int, bytes]:
        place = urlsplit(self.url)
        connection = http.client.HTTPSConnection(
            str(place.hostname),
            place.port,
            timeout=TIMEOUT_SECONDS,
            context=ssl.create_default_context(cafile=str(self.ca_file)),
        )
        try:
            connection.request(
                method,
                path,
                body=None if body is None else json.dumps(body),
                headers={
                    "Authorization": f"Bearer {token}",
                    "Content-Type": CONTENT_TYPE_OF.get(method, "application/json"),
                },
            )
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def reads(self, path: str) -> bool:
        """Whether a GET by the admin succeeds."""
        try:
            self.call("GET", path)
        except (Answered, OSError, http.client.HTTPException):
            return False
        return True

    def token_for(self, service_account: str, namespace: str, *, seconds: int = TOKEN_SECONDS) -> str:
        """Return a token of a ServiceAccount by TokenRequest; raises Answered (404) when there is none."""
        answer = self.call(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": seconds},
            },
        )
        return str(answer["status"]["token"])

    def kubeconfig_for(self, service_account: str, namespace: str, folder: Path) -> Path:
        """Write a kubeconfig with a token of a ServiceAccount, its namespace the default one."""
        token = self.token_for(service_account, namespace)
        path = folder / f"{namespace}-{service_account}.kubeconfig"
        write_kubeconfig(path, url=self.url, ca_file=self.ca_file, token=token, namespace=namespace)
        return path

    def kubectl(
        self, *args: object, stdin: str | None = None, timeout_seconds: float = 120.0
    ) -> "subprocess.CompletedProcess[str]":
        """Run kubectl as the admin; check the return code yourself."""
        return subprocess.run(
            [self.binaries / "kubectl", *map(str, args)],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )

    def query(self, path: str, **parameters: str) -> dict[str, Any]:
        """Send a GET with parameters."""
        return self.call("GET", f"{path}?{urlencode(parameters)}")


def write_kubeconfig(path: Path, *, url: str, ca_file: Path, token: str, namespace: str = "default") -> None:
    """Write a kubeconfig that only this user may read. JSON, which is YAML."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "kvtune",
        "clusters": [{"name": "kvtune", "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "kvtune", "user": {"token": token}}],
        "contexts": [
            {"name": "kvtune", "context": {"cluster": "kvtune", "user": "kvtune", "namespace": namespace}}
        ],
    }
    half = path.with_suffix(".half")
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(document, file, indent=1)
    half.replace(path)
