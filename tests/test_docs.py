"""The generated documents are those that the types ask for, and say something about every field."""

from enum import StrEnum
from pathlib import Path

import pytest

from kvtune_api.knobs import CacheConfig, Knob
from kvtune_api.policy import PolicySpec
from tools.docgen import generated
from tools.fields import form, rows

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("path", sorted(generated()))
def test_a_generated_file_is_what_the_types_ask_for(path: str) -> None:
    assert (ROOT / path).read_text() == generated()[path](), "run `make gen`"


@pytest.mark.parametrize("path", sorted(path for path in generated() if path.endswith(".md")))
def test_a_generated_document_warns_its_editor(path: str) -> None:
    assert "Do not edit." in (ROOT / path).read_text().splitlines()[0]


def test_every_field_of_a_policy_has_a_meaning() -> None:
    assert [row.path for row in rows(PolicySpec, "spec.") if not row.meaning] == []


@pytest.mark.parametrize("knob", Knob)
def test_a_knob_is_in_the_configuration_and_in_the_policy(knob: Knob) -> None:
    assert knob in {row.path for row in rows(CacheConfig)}
    assert f"spec.knobs.{knob}" in {row.path for row in rows(PolicySpec, "spec.")}


def test_a_default_that_stands_in_the_parent_is_shown_in_the_child() -> None:
    by_path = {row.path: row for row in rows(PolicySpec)}

    assert by_path["experiment.window.min"].default == "`120s`"
    assert by_path["knobs.cacheTTL.min"].default == "required"


def test_a_closed_choice_of_few_values_lists_them() -> None:
    class Colour(StrEnum):
        RED = "Red"
        BLUE = "Blue"

    assert form(Colour | None).kind == "one of `Red`, `Blue`"


def test_an_annotation_without_words_is_named() -> None:
    with pytest.raises(TypeError, match=r"<class 'complex'>.*tools/fields\.py"):
        form(complex)
