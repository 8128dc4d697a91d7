"""Agents over https: one name for all of them, an authority of one's own, and nobody else is believed."""

from pathlib import Path

import pytest

from kvtune_api.errors import Unavailable
from kvtune_operator.adapters.fetch import Answer, Trust, fetching, trusting
from kvtune_operator.ports import Unreachable
from tests.fakes.authority import Certified, certified
from tests.fakes.servers import hearing

NAME = "kvtune-agent"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return certified(tmp_path_factory.mktemp("tls"), NAME)


async def hello(head: dict[str, str], body: bytes) -> tuple[int, bytes]:
    return 200, b"hello"


async def asked(files: Certified, trust: Trust) -> Answer | Unreachable:
    async with (
        hearing(hello, context=files.serving()) as address,
        fetching(timeout_seconds=5.0, trust=lambda: trust) as fetcher,
    ):
        return await fetcher.get(f"{address}/v1/report", limit_bytes=100, accept="*/*")


async def test_an_agent_with_the_agreed_name_and_authority_is_believed(files: Certified) -> None:
    answer = await asked(files, Trust(context=trusting(str(files.ca_file)), server_name=NAME))

    assert isinstance(answer, Answer)
    assert answer.body == b"hello"


@pytest.mark.parametrize(
    ("authority", "name", "says"),
    [
        (False, NAME, "self-signed certificate in certificate chain|unable to get local issuer"),
        (True, "another", "not valid for 'another'"),
        (True, None, "not valid for '127.0.0.1'"),
    ],
)
async def test_nobody_else_is_believed(
    files: Certified, authority: bool, name: str | None, says: str
) -> None:
    context = trusting(str(files.ca_file) if authority else None)

    answer = await asked(files, Trust(context=context, server_name=name))

    assert isinstance(answer, Unreachable)
    assert "the certificate is not trusted" in answer.message
    assert any(words in answer.message for words in says.split("|")), answer.message


async def test_https_of_an_agent_that_speaks_http_is_unreachable(files: Certified) -> None:
    async with hearing(hello) as address, fetching(timeout_seconds=0.2) as fetcher:
        url = f"{address}/v1/report".replace("http:", "https:")
        answer = await fetcher.get(url, limit_bytes=100, accept="*/*")

    assert isinstance(answer, Unreachable)
    assert url in answer.message


@pytest.mark.parametrize(("content", "says"), [(None, "No such file"), ("no certificate", "")])
def test_a_file_of_authorities_that_holds_none_is_named(
    tmp_path: Path, content: str | None, says: str
) -> None:
    path = tmp_path / "ca.crt"
    if content is not None:
        path.write_text(content)

    with pytest.raises(Unavailable) as told:
        trusting(str(path))

    assert str(path) in str(told.value)
    assert says in str(told.value)
