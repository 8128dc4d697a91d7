"""Certificates for tests of https, made by openssl: an authority and a server that it vouches for."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Certified:
    """Files of an authority and of one server."""

    ca_file: Path
    certificate: Path
    key: Path

    def serving(self) -> ssl.SSLContext:
        """What the server serves with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def certified(folder: Path, name: str) -> Certified:
    """Make an authority, and a certificate of it that carries one DNS name and no address."""
    ca, ca_key, certificate, key = (folder / file for file in ("ca.crt", "ca.key", "tls.crt", "tls.key"))
    _openssl("req", "-x509", *_KEY, "-keyout", ca_key, "-out", ca, "-subj", "/CN=test authority")
    vouched = ("-CA", ca, "-CAkey", ca_key, "-addext", f"subjectAltName=DNS:{name}")
    _openssl("req", "-x509", *_KEY, "-keyout", key, "-out", certificate, "-subj", f"/CN={name}", *vouched)
    return Certified(ca_file=ca, certificate=certificate, key=key)


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)
