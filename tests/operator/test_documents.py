"""Wrong policies and how they are refused: every problem at once, with line, path, value and limit."""

import contextlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_api.codec import dump
from kvtune_api.errors import KvtuneError, SpecError
from kvtune_api.policy import KVCachePolicy
from kvtune_operator.advice import advice
from kvtune_operator.documents import EXPANDED_LIMIT, SIZE_LIMIT_BYTES, policy_in, read_policy
from tests.fakes.samples import policy

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

GOOD = """\
apiVersion: kvtune.dev/v1alpha1
kind: KVCachePolicy
metadata: {name: chat}
spec:
  targets:
    ttft: {limit: 250ms}
  objective: {prices: {memory: 0.05}}
  knobs:
    cacheTTL:
      min: 30s
      max: 600s
"""

TEN_WRONG_POLICIES = {
    "a misspelt field": (
        GOOD.replace("limit: 250ms", "limit: 250ms, limt: 1s"),
        "line 6: spec.targets.ttft.limt: unknown field",
    ),
    "a target that is missing": (
        GOOD.replace("ttft: {limit: 250ms}", "{}"),
        "line 5: spec.targets: at least one target is needed: ttft or hitRate",
    ),
    "a duration without a unit": (
        GOOD.replace("30s", "'30'"),
        "line 10: spec.knobs.cacheTTL.min: '30' is not a duration such as '90s', '5m' or '320ms'",
    ),
    "min above max": (
        GOOD.replace("600s", "20s"),
        "line 9: spec.knobs.cacheTTL: min 30s is greater than max 20s",
    ),
    "a start outside the bounds": (
        GOOD + "      start: 20m\n",
        "line 9: spec.knobs.cacheTTL: start 20m is outside 30s to 600s",
    ),
    "a number above its limit": (
        GOOD + "  experiment: {alpha: 0.5}\n",
        "line 12: spec.experiment.alpha: 0.5: input should be less than or equal to 0.2",
    ),
    "no knob to tune": (
        GOOD.partition("    cacheTTL")[0].replace("  knobs:\n", "  knobs: {}\n"),
        "line 8: spec.knobs: at least one knob is needed: cacheTTL, evictionRatio, tiers.hostMemory,"
        " evictionPolicy or storeThreshold",
    ),
    "a mode that does not exist": (
        GOOD + "  mode: Turbo\n",
        "line 12: spec.mode: 'Turbo': input should be 'Observe', 'Recommend', 'Auto' or 'AATest'",
    ),
    "another kind": (
        GOOD.replace("KVCachePolicy", "ConfigMap"),
        "line 2: kind: is 'ConfigMap', must be 'KVCachePolicy'",
    ),
    "a field twice": (
        GOOD + "      max: 700s\n",
        "line 12: max (first on line 11) stands twice",
    ),
}


@pytest.mark.parametrize("case", sorted(TEN_WRONG_POLICIES))
def test_a_wrong_policy_is_refused_readably(case: str) -> None:
    text, message = TEN_WRONG_POLICIES[case]

    with pytest.raises(SpecError) as refused:
        policy_in(text)

    assert [str(problem) for problem in refused.value.problems] == [message]


def test_there_are_ten_wrong_policies() -> None:
    assert len(TEN_WRONG_POLICIES) == 10


def test_all_ten_problems_of_one_policy_are_told_at_once_and_in_their_lines() -> None:
    with pytest.raises(SpecError) as refused:
        read_policy(EXAMPLES / "invalid.yaml")

    lines = (EXAMPLES / "invalid.yaml").read_text().splitlines()
    marked = {number: line for line, text in enumerate(lines, 1) if (number := mark(text))}
    told = [problem.line for problem in refused.value.problems]
    assert told == [marked[number] - (number == 5) for number in range(1, 11)], "5 is told of the whole range"


def mark(text: str) -> int:
    """The number of the problem that a line of the example says it has; 0 for none."""
    comment = text.partition("# ")[2].partition(".")[0]
    return int(comment) if comment.isdigit() else 0


def test_the_good_policy_is_read() -> None:
    assert policy_in(GOOD).spec.knobs.cache_ttl is not None


@pytest.mark.parametrize("name", ["chat.yaml", "minimal.yaml"])
def test_the_examples_are_valid_and_raise_no_warning(name: str) -> None:
    assert advice(read_policy(EXAMPLES / name)) == ()


def test_the_minimal_example_has_ten_lines() -> None:
    assert len((EXAMPLES / "minimal.yaml").read_text().splitlines()) == 10


def test_json_is_read_as_well_tabs_and_all() -> None:
    text = json.dumps(dump(policy()), indent="\t")

    assert policy_in(text) == policy()


def test_json_numbers_are_read_as_json_has_them() -> None:
    text = json.dumps(dump(policy(experiment={"alpha": 0.01}))).replace("0.01", "1e-2")

    assert policy_in(text).spec.experiment.alpha == 0.01


TROUBLE = {
    "nothing": ("", "line 1: the file holds no document"),
    "only a comment": ("# hello\n", "line 1: the file holds no document"),
    "only separators": ("---\n---\n", "line 1: the file holds no document"),
    "a list": ("- a\n", "line 1: the document is a list, a KVCachePolicy is needed"),
    "a word": ("chat\n", "line 1: the document is a str"),
    "no kind": ("spec: {}\n", "kind: is required, must be 'KVCachePolicy'"),
    "two documents": (f"{GOOD}---\n{GOOD}", "line 13: 2 documents, exactly one KVCachePolicy is needed"),
    "a tab": (GOOD.replace("    ttft", "\tttft"), "line 6: a tab stands where YAML wants spaces"),
    "an open bracket": ("a: [1\n", "line 2: "),
    "python objects": (
        "kind: !!python/object/apply:os.getcwd []\n",
        "line 1: could not determine a constructor",
    ),
    "an impossible date": (f"{GOOD}x: 2020-99-99\n", "holds a value that cannot be read"),
    "deep nesting": ("[" * 60, "line 1: nested more than 50 levels deep"),
    "very deep nesting": ("{a: " * 20_000, "line 1: nested more than 50 levels deep"),
    "a node in itself": (
        "kind: KVCachePolicy\nspec: &a\n  b: *a\n",
        f"more than {EXPANDED_LIMIT} characters",
    ),
    "a billion laughs": (
        "a0: &a0 x\n" + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)),
        f"expand to more than {EXPANDED_LIMIT} characters",
    ),
    "a control character": ("kind: \x00\n", "cannot be read as YAML"),
    "JSON with NaN": ('{"kind": "KVCachePolicy",\n"x": NaN}', "line 2: NaN is not a number"),
    "JSON cut off": ('{"kind": "KVCachePolicy",\n', "line "),
    "JSON with a key twice": ('{"kind": 1,\n"kind": 2}', "line 2: kind (first on line 1) stands twice"),
    "another API version": (GOOD.replace("v1alpha1", "v9"), "line 1: apiVersion"),
    "status of the wrong type": (f"{GOOD}status: fine\n", "line 12: status: must be an object, not 'fine'"),
    "labels that hold dots": (
        GOOD.replace("spec:\n", "spec:\n  selector: {nodes: {matchLabels: {\n    kvtune.dev/pool: 1}}}\n"),
        "line 6: spec.selector.nodes.matchLabels.kvtune.dev/pool: ",
    ),
    "an address in the wrong place of a list": (
        GOOD.replace("spec:\n", "spec:\n  selector:\n    addresses:\n    - http://a:1\n    - b\n"),
        "line 8: spec.selector.addresses[1]: ",
    ),
}


@pytest.mark.parametrize("case", sorted(TROUBLE))
def test_a_text_that_is_no_policy_is_refused_with_its_line(case: str) -> None:
    text, says = TROUBLE[case]

    with pytest.raises(SpecError) as refused:
        policy_in(text)

    assert says in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="No such file or directory"):
        read_policy(tmp_path / "none.yaml")


def test_a_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="Is a directory"):
        read_policy(tmp_path)


def test_a_file_that_is_no_text_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"kind: KVCachePolicy\nname: \xff\n")

    with pytest.raises(SpecError, match=r"line 2: .*not UTF-8 text"):
        read_policy(path)


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())

    assert read_policy(path) == policy_in(GOOD)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("#" * (SIZE_LIMIT_BYTES + 1))

    with pytest.raises(SpecError, match=f"at most {SIZE_LIMIT_BYTES} are read"):
        read_policy(path)


@pytest.mark.parametrize("text", ["", "NULL", "~", "--- null", "---\n---", '""'])
def test_a_document_that_says_nothing_is_none(text: str) -> None:
    with pytest.raises(SpecError, match="the file holds no document"):
        policy_in(text)

    assert policy_in(f"{text}\n---\n{GOOD}") == policy_in(GOOD)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(SpecError):
        policy_in(text)


@given(st.data())
def test_a_good_policy_with_a_piece_cut_out_is_read_or_refused(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(GOOD)))
    end = data.draw(st.integers(start, len(GOOD)))
    with contextlib.suppress(SpecError):
        assert isinstance(policy_in(GOOD[:start] + GOOD[end:]), KVCachePolicy)


def test_a_device_or_a_pipe_is_refused_and_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    for path in (tmp_path / "pipe.yaml", Path("/dev/zero")):
        with pytest.raises(KvtuneError, match="is not a file that can be read whole"):
            read_policy(path)
