"""The readers of traces that tell of arrivals alone."""

from pathlib import Path

import pytest

from kvtune_lab.readers.errors import TraceError
from kvtune_lab.readers.load import load_arrivals
from kvtune_lab.readers.loaded import Arrivals, ClientRates

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n"
SERVEGEN = (
    "category,model,client,t_s,rate_rps,cv,dist,param1,param2\nl,m,0,0,1.5,8,Weibull,1,1\n"
    "l,m,1,600,0.5,2,Gamma,1,1\n"
)


def csv(folder: Path, text: str) -> Path:
    path = folder / "t.csv"
    path.write_text(text)
    return path


def test_azure_arrivals_count_from_the_first(tmp_path: Path) -> None:
    found = load_arrivals(csv(tmp_path, AZURE + "2023-11-16 18:17:05.4799600,7,1\n"))
    assert isinstance(found, Arrivals)
    assert found.times.tolist() == pytest.approx([0, 1.5])
    assert (found.prompts.tolist(), found.outputs.tolist()) == ([4808, 7], [10, 1])


def test_a_time_with_an_offset_is_that_instant(tmp_path: Path) -> None:
    text = AZURE + "2023-11-16T20:17:05.9799600+02:00,7,1\n"
    assert load_arrivals(csv(tmp_path, text)).times.tolist() == pytest.approx([0, 2])


def test_clients_of_servegen_are_told_apart(tmp_path: Path) -> None:
    found = load_arrivals(csv(tmp_path, SERVEGEN))
    assert isinstance(found, ClientRates)
    assert (found.times.tolist(), found.rates.tolist()) == ([0, 600], [1.5, 0.5])
    assert (found.clients.tolist(), found.variations.tolist()) == ([0, 1], [8, 2])


@pytest.mark.parametrize(
    ("head", "line", "says"),
    [
        (AZURE, "yesterday,1,1", ":3: TIMESTAMP: .yesterday. is not a date and time"),
        (AZURE, "2023-11-16 18:17:01,1,1", ":3: TIMESTAMP: .* is before the line before it"),
        (AZURE, "2023-11-16 18:18:01,-1,1", ":3: ContextTokens: '?-1'? is not a whole number >= 0"),
        (AZURE, "2023-11-16 18:18:01,1,x", ":3: GeneratedTokens: '?x'? is not a whole number >= 0"),
        (AZURE, "2023-11-16 18:18:01,1_000,1", ":3: ContextTokens: '?1_000'? is not a whole number >= 0"),
        (AZURE, "2023-11-16 18:18:01,1e3,1", ":3: ContextTokens: '?1e3'? is not a whole number >= 0"),
        (SERVEGEN, "l,m,1,600,1_0,2,Gamma,1,1", ":4: rate_rps: '?1_0'? is not a number >= 0"),
        (AZURE, "2023-11-16 18:18:01,1", ":3: line: .* has 2 values where 3 belong"),
        (SERVEGEN, "l,m,1,600,nan,2,Gamma,1,1", ":4: rate_rps: '?nan'? is not a number >= 0"),
        (SERVEGEN, "l,m,1,600,-1,2,Gamma,1,1", ":4: rate_rps: '?-1'? is not a number >= 0"),
    ],
)
def test_a_bad_line_is_named_and_may_be_skipped(head: str, line: str, says: str, tmp_path: Path) -> None:
    path = csv(tmp_path, head + line + "\n")
    with pytest.raises(TraceError, match=says):
        load_arrivals(path)
    assert load_arrivals(path, skip_bad=1).skipped == 1


def test_a_heading_alone_is_an_empty_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="the trace has no request"):
        load_arrivals(csv(tmp_path, AZURE.partition("\n")[0] + "\n"))
