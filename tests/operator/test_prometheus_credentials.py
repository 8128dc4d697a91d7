"""Credentials reach one Prometheus alone, over verified TLS, and are shown to nobody."""

import json
import logging
import ssl
from pathlib import Path

import pytest

from kvtune_api.errors import Unavailable
from kvtune_operator.adapters.credentials import Credentials
from kvtune_tuner.sli import Missing
from tests.fakes.certificates import self_signed
from tests.fakes.servers import answering, hearing
from tests.operator.prometheus_asked import EMPTY, SECRET, metrics_at, newest, trouble


async def credentials() -> Credentials | None:
    return Credentials(headers={"Authorization": f"Bearer {SECRET}", "X-Key": SECRET})


async def test_credentials_reach_prometheus_and_no_other_host() -> None:
    here, there = list[dict[str, str]](), list[dict[str, str]]()

    async def elsewhere(headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        there.append(headers)
        return 200, json.dumps(EMPTY).encode()

    async def answer(headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        here.append(headers)
        assert body.startswith(b"query=")
        return 200, json.dumps(EMPTY).encode()

    async with hearing(answer) as address:
        await newest(metrics_at(address, credentials=credentials))
    async with (
        hearing(elsewhere) as other,
        answering(b"", status=307, extra=f"Location: {other}/\r\n") as moved,
    ):
        await trouble(metrics_at(moved, credentials=credentials))

    assert (here[0]["authorization"], here[0]["x-key"]) == (f"Bearer {SECRET}", SECRET)
    assert there == []


async def test_tls_is_verified_and_a_secrets_authority_is_trusted(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def trusting() -> Credentials | None:
        return Credentials(ca=certificate.read_text(), headers={"Authorization": f"Bearer {SECRET}"})

    async def answer(headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        return 200, json.dumps(EMPTY).encode()

    async with hearing(answer, context=context) as address:
        message = await trouble(metrics_at(address))
        trusted = await newest(metrics_at(address, credentials=trusting))

    assert "TLS: self" in message
    assert isinstance(trusted, Missing), "an empty answer came through"


async def test_credentials_are_neither_logged_nor_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async with answering(b"no", status=401) as address:
        message = await trouble(metrics_at(address, credentials=credentials))

    assert SECRET not in message
    assert SECRET not in caplog.text
    assert SECRET not in repr(await credentials())


async def test_credentials_that_cannot_be_read_are_told_and_nobody_is_asked() -> None:
    async def none() -> Credentials | None:
        raise Unavailable("spec.metrics.prometheus.secret: Secret ai/keys does not exist")

    metrics = metrics_at("http://127.0.0.1:1", credentials=none)

    with pytest.raises(Unavailable, match="Secret ai/keys does not exist"):
        await newest(metrics)
    assert metrics.asked == 0
