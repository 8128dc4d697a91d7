"""An agent behind https: a certificate of an authority made here, and what a bad one says."""

import ssl
import subprocess
from pathlib import Path

import httpx
import pytest

from kvtune_agent.exits import CertificateUnavailable, ExitCode, exit_code
from kvtune_agent.serve import tls_context
from kvtune_agent.settings import AgentSettings
from kvtune_api.errors import SpecError
from tests.agent.samples import START, TOKEN, WRITE, push_body, settings
from tests.agent.test_process import command

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(("openssl", *arguments), cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.fixture
def authority(tmp_path: Path) -> ssl.SSLContext:
    """Trust in ca.crt alone; it has signed agent.crt (127.0.0.1), whose key is agent.key."""
    openssl(tmp_path, "req", "-x509", *CURVE, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=tests")
    openssl(tmp_path, "req", *CURVE, "-keyout", "agent.key", "-out", "agent.csr", "-subj", "/CN=agent")
    (tmp_path / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    signing = ("x509", "-req", "-in", "agent.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial")
    openssl(tmp_path, *signing, "-out", "agent.crt", "-extfile", "names")
    return ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))


def with_tls(folder: Path, cert: str = "agent.crt", key: str = "agent.key") -> AgentSettings:
    return settings(folder, tls_cert_file=folder / cert, tls_key_file=folder / key)


def test_an_agent_serves_https_to_those_who_trust_its_authority(
    tmp_path: Path, authority: ssl.SSLContext
) -> None:
    files = (f"--tls-cert-file={tmp_path / 'agent.crt'}", f"--tls-key-file={tmp_path / 'agent.key'}")
    with subprocess.Popen(command(tmp_path, *files), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            assert url.startswith("https://127.0.0.1:")
            with httpx.Client(base_url=url, verify=authority, timeout=30, trust_env=False) as client:
                assert client.get("/readyz").status_code == 200
                assert client.put("/v1/config", json=push_body(), headers=WRITE).status_code == 200
            with (
                httpx.Client(base_url=url, timeout=30, trust_env=False) as stranger,
                pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"),
            ):
                stranger.get("/readyz")
            plain = url.replace("https", "http")
            with (
                httpx.Client(base_url=plain, timeout=30, trust_env=False) as unsafe,
                pytest.raises(httpx.TransportError),
            ):
                unsafe.get("/readyz")
        finally:
            process.terminate()
            assert process.wait(timeout=30) == ExitCode.OK


def test_a_certificate_or_key_that_cannot_be_used_is_one_clear_sentence(
    tmp_path: Path, authority: ssl.SSLContext
) -> None:
    (tmp_path / "empty").write_text("")
    openssl(tmp_path, "ec", "-in", "agent.key", "-out", "locked.key", "-aes128", "-passout", f"pass:{TOKEN}")
    for cert, key, words in (
        ("none", "agent.key", "No such file or directory"),
        ("agent.crt", "ca.key", "KEY_VALUES_MISMATCH"),
        ("empty", "agent.key", "cannot be used: "),
        ("agent.crt", "locked.key", "the key is encrypted"),
    ):
        with pytest.raises(CertificateUnavailable, match=words) as caught:
            tls_context(with_tls(tmp_path, cert, key))
        assert str(tmp_path / cert) in str(caught.value)
        assert exit_code(caught.value) == ExitCode.CERTIFICATE


def test_a_certificate_needs_its_key_and_a_key_its_certificate(tmp_path: Path) -> None:
    files = {"state_dir": tmp_path, "token_file": tmp_path / "token"}
    with pytest.raises(SpecError, match="tlsKeyFile: is required with tlsCertFile"):
        AgentSettings(name="a", config=START, tls_cert_file=tmp_path / "c", **files)
    with pytest.raises(SpecError, match="tlsCertFile: is required with tlsKeyFile"):
        AgentSettings(name="a", config=START, tls_key_file=tmp_path / "k", **files)


def test_without_a_certificate_it_serves_plain_http(tmp_path: Path) -> None:
    assert tls_context(settings(tmp_path)) is None
