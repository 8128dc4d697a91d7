"""JSON to the standard output or to a file."""

from pathlib import Path

import pytest

from kvtune_api.errors import Unavailable
from kvtune_cli.output import STDOUT, put_json


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
