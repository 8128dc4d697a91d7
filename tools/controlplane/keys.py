"""The files that the API server reads at its start: a signing key, the admin's token, what to audit."""

import base64
import json
import os
import secrets
import textwrap
from pathlib import Path

# RFC 5915: SEQUENCE { version 1, OCTET STRING of 32 bytes, [0] prime256v1 }. The public key may be left out.
_HEAD = bytes.fromhex("30310201010420")
_CURVE = bytes.fromhex("a00a06082a8648ce3d030107")
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "userGroups": ["system:nodes", "system:serviceaccounts:kube-system"]},
        {"level": "None", "users": ["system:apiserver", "system:anonymous"]},
        {"level": "None", "nonResourceURLs": ["/*"]},
        {"level": "Metadata"},
    ],
}


def write_signing_key(path: Path) -> None:
    """Write a new private key of the curve P-256, with which tokens of ServiceAccounts are signed."""
    scalar = secrets.randbelow(_ORDER - 1) + 1
    body = base64.b64encode(_HEAD + scalar.to_bytes(32, "big") + _CURVE).decode()
    pem = "\n".join(
        ["-----BEGIN EC PRIVATE KEY-----", *textwrap.wrap(body, 64), "-----END EC PRIVATE KEY-----", ""]
    )
    _write_private(path, pem)


def write_admin_token(path: Path) -> str:
    """Write the file of static tokens with a new token of a user in system:masters; returns the token."""
    token = secrets.token_hex(24)
    _write_private(path, f'{token},kvtune-admin,kvtune-admin,"system:masters"\n')
    return token


def write_audit_policy(path: Path) -> None:
    """Write what is audited: every request on a resource that the control plane did not send itself."""
    path.write_text(json.dumps(AUDIT_POLICY))


def _write_private(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
