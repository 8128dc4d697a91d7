"""Experiments as kubectl prints them and as files hold them; what is damaged is named with its line."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvtune_api.codec import dump
from kvtune_api.errors import Corrupt
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.metadata import Metadata
from kvtune_operator.ledgers import experiments_in, read_experiments
from kvtune_operator.storage import write
from tests.fakes.samples import experiment


def stored(name: str = "chat-1") -> KVCacheExperiment:
    made = experiment(name, rows=8)
    return replace(made, metadata=Metadata(name=name, namespace="x", uid=f"uid-{name}", resource_version="7"))


def on_server(name: str = "chat-1") -> dict[str, Any]:
    """An experiment as an API server answers: packed, with fields that are none of ours."""
    plain = dump(stored(name), packed=True)
    assert isinstance(plain, dict)
    plain["metadata"] |= {
        "ownerReferences": [{"kind": "KVCachePolicy", "name": "chat", "uid": "u"}],
        "managedFields": [{"manager": "kvtune", "fieldsV1": {"f:spec": {}}}],
    }
    plain["status"]["ofANewerVersion"] = {"a": 1}
    return plain


@pytest.mark.parametrize("text", [json.dumps, yaml.safe_dump])
def test_what_kubectl_prints_of_one_experiment_is_read(text: Any) -> None:
    assert experiments_in(text(on_server()), "x") == (stored(),)


@pytest.mark.parametrize("text", [json.dumps, yaml.safe_dump])
def test_what_kubectl_prints_of_many_is_read(text: Any) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [on_server("chat-1"), on_server("chat-2")]}

    assert experiments_in(text(listed), "x") == (stored("chat-1"), stored("chat-2"))


def test_several_yaml_documents_are_read() -> None:
    text = yaml.safe_dump_all([on_server("chat-1"), on_server("chat-2")])

    assert experiments_in(text, "x") == (stored("chat-1"), stored("chat-2"))


def test_a_file_of_a_state_directory_is_read_and_may_hold_no_foreign_field(tmp_path: Path) -> None:
    path = tmp_path / "chat-1.json"
    write(path, experiment())
    assert read_experiments(path) == (experiment(),)

    path.write_text(path.read_text().replace('"seed"', '"sead": 1, "seed"'))

    with pytest.raises(Corrupt, match=rf"{path} line [0-9]+: spec\.sead: unknown field"):
        read_experiments(path)


def test_no_file_holds_no_experiment(tmp_path: Path) -> None:
    assert read_experiments(tmp_path / "none") == ()


def test_an_error_in_a_list_names_item_field_and_line() -> None:
    bad = on_server("chat-2")
    bad["status"]["rows"] = "nonsense"
    text = json.dumps({"kind": "List", "items": [on_server(), bad]}, indent=1)
    line = next(number for number, held in enumerate(text.splitlines(), 1) if '"nonsense"' in held)

    with pytest.raises(Corrupt, match=rf"x line {line}: items\[1\]\.status\.rows: .*packed"):
        experiments_in(text, "x")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the file is empty"),
        ("{", "line 1"),
        ("[1]", "line 1"),
        ("a: [", "x line 2: did not find"),
        ("hello", "line 1: must be an object"),
        ("kind: Pod\nmetadata: {name: a, uid: b}\n", "line 1: kind"),
        ("a: &a [*a]", "line 1"),
        ("a: 2026-99-99", "cannot be read as YAML|line 1"),
        ("- " * 5000, "line 1"),
    ],
)
def test_what_is_no_experiment_is_refused(text: str, why: str) -> None:
    with pytest.raises(Corrupt, match=why):
        experiments_in(text, "x")
