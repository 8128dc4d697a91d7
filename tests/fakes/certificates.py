"""Self-signed certificates for loopback servers of tests, made by the machine's openssl."""

import subprocess
from pathlib import Path


def self_signed(folder: Path, host: str = "127.0.0.1") -> tuple[Path, Path]:
    """A certificate of an address, and its key."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    subject = ["-subj", f"/CN={host}", "-addext", f"subjectAltName=IP:{host}"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    subprocess.run([*command, "-days", "2", *subject, *files], check=True, capture_output=True, timeout=60)
    return certificate, key
