"""JSON to the standard output or to a file; what commands of the laboratory write beside their tables."""

import json
import os
from pathlib import Path

import pytest
from pyarrow import parquet  # type: ignore[import-untyped]  # it has no types

from kvtune_api.errors import Unavailable
from kvtune_cli.exits import ExitCode
from kvtune_cli.lab_outputs import Outputs
from kvtune_cli.main import run
from kvtune_cli.output import STDOUT, put_json
from kvtune_lab.sweep.parquet import write_parquet
from tests.lab.readers.files import mooncake, write


def test_json_goes_to_the_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    put_json(STDOUT, {"rate": float("nan")})
    assert capsys.readouterr().out == '{\n  "rate": null\n}\n'


def test_json_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_json(tmp_path / "out.json", [1])
    assert (tmp_path / "out.json").read_text() == "[\n  1\n]\n"
    assert capsys.readouterr().out == ""


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"none/out.json: No such file or directory"):
        put_json(tmp_path / "none" / "out.json", [1])


ODD = os.fsdecode(b"n\xff")
"""A name of a file that is no UTF-8."""


def test_a_name_that_is_no_utf8_comes_back_from_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_json(tmp_path / ODD, {"trace": ODD, "other": "ä"})
    assert json.loads((tmp_path / ODD).read_text()) == {"trace": ODD, "other": "ä"}
    put_json(STDOUT, {"trace": ODD})
    assert json.loads(capsys.readouterr().out) == {"trace": ODD}


def test_parquet_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / ODD
    outputs = Outputs(json=None, parquet=target, plots=None, plot_format="png")
    outputs.put_rows([{"a": 1}])
    write_parquet([{"capacity_blocks": 2}], target)
    with pytest.raises(OverflowError):
        outputs.put_rows([{"a": 1 << 70}])
    with target.open("rb") as file:
        assert parquet.read_table(file).to_pylist() == [{"capacity_blocks": 2}]
    full = Outputs(json=None, parquet=Path("/dev/full"), plots=None, plot_format="png")
    with pytest.raises(Unavailable, match="/dev/full: No space left on device"):
        full.put_rows([{"a": 1}])
    assert Path("/dev/full").exists()


def test_a_bad_trace_leaves_no_empty_results(tmp_path: Path) -> None:
    trace = write(tmp_path / "trace", [mooncake(-1, [0])])
    results = ["--json", tmp_path / "j", "--parquet", tmp_path / "p"]
    assert run(list(map(str, ["trace", "stats", trace, *results]))) == ExitCode.USAGE
    assert list(tmp_path.iterdir()) == [trace]
