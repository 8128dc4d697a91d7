"""Credentials from Secrets: the label comes first, errors name Secret and key, nothing is ever shown."""

import base64
import logging
import tempfile
from pathlib import Path
from typing import Any

import pytest

from kvtune_api.errors import Unavailable
from kvtune_api.names import LABEL_METRICS_CREDENTIALS
from kvtune_operator.adapters.credentials import FOLDER, Credentials, SecretCredentials, tls_context
from tests.fakes.certificates import self_signed

HIDDEN = "hunter2"
PATH = "/api/v1/namespaces/ai/secrets/keys"
WHAT = "spec.metrics.prometheus.secret: Secret ai/keys"


class FakeSecrets:
    """A store of one Secret that counts how often it is read."""

    def __init__(self, found: dict[str, Any] | None, trouble: Unavailable | None = None) -> None:
        self.found = found
        self.trouble = trouble
        self.reads = list[str]()

    async def get(self, path: str, **query: str | int | bool) -> dict[str, Any] | None:
        """The Secret, by its name alone."""
        self.reads.append(path)
        if self.trouble:
            raise self.trouble
        return self.found


def secret(*, label: str | None = LABEL_METRICS_CREDENTIALS, **data: str) -> dict[str, Any]:
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
    return {"metadata": {"labels": {label: ""} if label else {}}, "data": encoded}


def reader(secrets: FakeSecrets, now: list[float] | None = None) -> SecretCredentials:
    clock = now or [0.0]
    return SecretCredentials(
        secrets, "ai", "keys", field="spec.metrics.prometheus.secret", monotonic=lambda: clock[0]
    )


def left_behind() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"{FOLDER}*"))


async def read(**data: str) -> Credentials:
    found = await reader(FakeSecrets(secret(**data)))()
    assert found is not None
    return found


async def test_a_token_is_sent_as_a_bearer() -> None:
    assert (await read(token=f"{HIDDEN}\n")).headers == {"Authorization": f"Bearer {HIDDEN}"}


async def test_user_and_password_are_sent_as_basic() -> None:
    found = await read(username="kvtune", password=HIDDEN)

    assert found.headers == {"Authorization": "Basic " + base64.b64encode(b"kvtune:hunter2").decode()}


async def test_extra_headers_are_sent() -> None:
    assert (await read(**{"header.X-Scope-OrgID": "team-1"})).headers == {"X-Scope-OrgID": "team-1"}


async def test_a_secret_without_the_label_is_not_used() -> None:
    secrets = FakeSecrets(secret(label=None, token=HIDDEN))

    with pytest.raises(Unavailable) as caught:
        await reader(secrets)()

    assert str(caught.value) == f"{WHAT} lacks the label {LABEL_METRICS_CREDENTIALS}: it is not used"
    assert secrets.reads == [PATH]


async def test_a_secret_that_is_not_there_is_named() -> None:
    with pytest.raises(Unavailable, match="Secret ai/keys does not exist"):
        await reader(FakeSecrets(None))()


async def test_a_right_that_lacks_is_named_with_its_role() -> None:
    trouble = Unavailable("GET secrets: 403, may not get secrets in namespace ai")

    with pytest.raises(
        Unavailable, match="a Role in namespace ai must allow the operator to get this Secret"
    ):
        await reader(FakeSecrets(None, trouble))()


BAD = {
    "nothing that is used": ({"other": HIDDEN}, "none of the keys that are used"),
    "a password alone": ({"password": HIDDEN}, "key username: is needed"),
    "token and password": ({"token": "a", "password": HIDDEN}, "key token: is not used together"),
    "a token of two lines": ({"token": f"{HIDDEN}\nHost: evil"}, "key token: must be one line"),
    "an empty token": ({"token": " \n"}, "key token: must be one line"),
    "a header that cuts": ({"header.X-A": f"{HIDDEN}\r\nX-B: 1"}, "key header.X-A: must be one line"),
    "the host as a header": ({"header.Host": HIDDEN}, "key header.Host: is not a header that can be set"),
    "a header that is none": ({"header.X A": HIDDEN}, "key header.X A: is not a header"),
    "an authority that is none": ({"ca.crt": HIDDEN}, "key ca.crt: holds no PEM"),
    "a certificate alone": ({"tls.crt": HIDDEN}, "key tls.key: is needed"),
    "a certificate that is none": (
        {"tls.crt": HIDDEN, "tls.key": HIDDEN},
        "keys tls.crt and tls.key: no PEM",
    ),
}


@pytest.mark.parametrize("case", sorted(BAD))
async def test_what_is_wrong_is_told_by_key_and_never_shown(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    data, expected = BAD[case]

    with pytest.raises(Unavailable) as caught:
        await read(**data)

    assert str(caught.value).startswith(WHAT)
    assert expected in str(caught.value)
    assert HIDDEN not in str(caught.value) + caplog.text


async def test_bytes_that_are_no_text_are_told() -> None:
    broken = {"metadata": {"labels": {LABEL_METRICS_CREDENTIALS: ""}}, "data": {"token": "?"}}

    with pytest.raises(Unavailable, match="key token: is not text"):
        await reader(FakeSecrets(broken))()


async def test_it_is_read_again_after_a_minute_and_not_before() -> None:
    now = [0.0]
    secrets = FakeSecrets(secret(token="one"))
    credentials = reader(secrets, now)
    first = await credentials()
    secrets.found = secret(token="two")
    now[0] = 59.0
    assert await credentials() is first
    now[0] = 60.0

    found = await credentials()

    assert found is not None and found.headers == {"Authorization": "Bearer two"}
    assert len(secrets.reads) == 2


async def test_a_secret_that_was_taken_away_is_not_used_any_more() -> None:
    now = [0.0]
    secrets = FakeSecrets(secret(token="one"))
    credentials = reader(secrets, now)
    await credentials()
    secrets.found, now[0] = None, 60.0

    for _ in range(2):
        with pytest.raises(Unavailable, match="does not exist"):
            await credentials()


async def test_a_client_certificate_is_read_and_leaves_no_file_behind(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)

    found = await read(**{"tls.crt": certificate.read_text(), "tls.key": key.read_text()})
    tls_context(found)

    assert found.certificate == certificate.read_text()
    assert left_behind() == []


async def test_credentials_show_nothing() -> None:
    assert HIDDEN not in repr(await read(token=HIDDEN)) + str(await read(token=HIDDEN))
