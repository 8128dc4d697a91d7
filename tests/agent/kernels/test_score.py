"""score: what each policy says of a block, by hand; kernel and reference agree on random tables."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kvtune_agent.kernels.choice import REFERENCE, TRITON, Kernels
from kvtune_agent.kernels.layout import Classes, Mark, Slots, wrapped
from tests.agent.kernels.tables import DEVICE, EVICTABLE, integer, learned, seeds, table, tensor

both = pytest.mark.parametrize("kernels", [REFERENCE, TRITON], ids=["reference", "triton"])

INDEX = (1.0, 0.0, 0.0, 0.0)
WORKLOAD_AWARE = (0.5, 0.3, 0.2, 0.0)
TOKEN_LRU = (0.0, 0.0, 0.0, 1.0)

CLASSES = Classes(
    reuse=tensor([[0.9, 0.5, 0.1], [0.4, 0.3, 0.2]], torch.float32),
    edges_s=tensor([0.0, 1.0, 10.0], torch.float32),
    window_s=tensor([2.0, 20.0], torch.float32),
)


def _block(*, last_access_ms: list[int], entropy: float = math.nan, mark: int = 0, row: int = 0) -> Slots:
    tokens = len(last_access_ms)
    return Slots(
        last_access_ms=tensor([last_access_ms], torch.int32),
        entropy=tensor([[entropy] * tokens], torch.float32),
        marks=tensor([[mark] * tokens], torch.uint8),
        classes=tensor([row], torch.int32),
        spatial=tensor([0.25], torch.float32),
        flags=tensor([EVICTABLE], torch.uint8),
    )


def _scores(
    kernels: Kernels, slots: Slots, classes: Classes, weights: tuple[float, ...], now_ms: int
) -> Tensor:
    scores = kernels.score(slots, classes, tensor(weights, torch.float32), integer(wrapped(now_ms)))
    assert scores.dtype == torch.float32
    return scores


def _score(kernels: Kernels, slots: Slots, weights: tuple[float, ...], now_ms: int = 10_000) -> float:
    return _scores(kernels, slots, CLASSES, weights, now_ms).item()


@both
def test_token_lru_weighs_recency_by_attention_and_structure(kernels: Kernels) -> None:
    idle_4_s = [6_000]

    assert _score(kernels, _block(last_access_ms=idle_4_s), TOKEN_LRU) == pytest.approx(1 / 5)
    assert _score(kernels, _block(last_access_ms=idle_4_s, entropy=0.4), TOKEN_LRU) == pytest.approx(0.6 / 5)
    assert _score(kernels, _block(last_access_ms=idle_4_s, entropy=0.99), TOKEN_LRU) == pytest.approx(0.1 / 5)
    structural = _block(last_access_ms=idle_4_s, mark=Mark.STRUCTURAL)
    assert _score(kernels, structural, TOKEN_LRU) == pytest.approx(1.3 / 5)


@both
def test_a_block_has_the_mean_of_its_tokens(kernels: Kernels) -> None:
    block = _block(last_access_ms=[10_000, 9_000, 6_000])

    assert _score(kernels, block, TOKEN_LRU) == pytest.approx((1 + 1 / 2 + 1 / 5) / 3)


@both
@pytest.mark.parametrize(
    ("idle_ms", "index"), [(0, 0.9), (999, 0.9), (1_000, 0.5), (9_999, 0.5), (10_000, 0.1)]
)
def test_an_index_is_read_by_class_and_age(kernels: Kernels, idle_ms: int, index: float) -> None:
    assert _score(kernels, _block(last_access_ms=[10_000 - idle_ms]), INDEX) == pytest.approx(index)


@both
@pytest.mark.parametrize("row", [1, 2, -1])
def test_a_class_beyond_the_table_counts_as_the_last_one(kernels: Kernels, row: int) -> None:
    assert _score(kernels, _block(last_access_ms=[10_000], row=row), INDEX) == pytest.approx(0.4)


@both
def test_workload_aware_adds_reuse_spatial_share_and_life(kernels: Kernels) -> None:
    within, beyond = _block(last_access_ms=[8_000]), _block(last_access_ms=[5_000])

    assert _score(kernels, within, WORKLOAD_AWARE) == pytest.approx(0.5 * 0.5 + 0.3 * 0.25 + 0.2)
    faded = 0.2 * math.exp(1 - 5 / 2)
    assert _score(kernels, beyond, WORKLOAD_AWARE) == pytest.approx(0.5 * 0.5 + 0.3 * 0.25 + faded)


@both
def test_times_wrap_around_and_those_to_come_count_as_now(kernels: Kernels) -> None:
    now_ms = 2**32 + 1_000
    before, after = (
        _block(last_access_ms=[wrapped(now_ms - 4_000)]),
        _block(last_access_ms=[wrapped(now_ms + 9)]),
    )

    assert _score(kernels, before, TOKEN_LRU, now_ms) == pytest.approx(1 / 5)
    assert _score(kernels, after, TOKEN_LRU, now_ms) == pytest.approx(1)
    assert wrapped(2**31) == -(2**31)


@both
def test_nan_of_a_term_without_weight_does_no_harm_and_of_another_is_seen(kernels: Kernels) -> None:
    block = replace(_block(last_access_ms=[10_000]), spatial=tensor([math.nan], torch.float32))

    assert _score(kernels, block, TOKEN_LRU) == pytest.approx(1)
    assert math.isnan(_score(kernels, block, WORKLOAD_AWARE))


@settings(max_examples=25)
@given(
    seed=seeds,
    blocks=st.integers(0, 70),
    tokens=st.integers(1, 40),
    classes=st.integers(1, 9),
    ages=st.integers(1, 31),
    weights=st.tuples(*[st.sampled_from([0.0, 0.5, 1.0, -0.25])] * 4),
)
def test_kernel_and_reference_score_alike(
    seed: int, blocks: int, tokens: int, classes: int, ages: int, weights: tuple[float, ...]
) -> None:
    slots, known = table(seed, blocks, tokens, classes), learned(seed, classes, ages)

    fast, plain = (_scores(kernels, slots, known, weights, 65_000) for kernels in (TRITON, REFERENCE))

    torch.testing.assert_close(fast, plain, rtol=2e-6, atol=1e-6)


def test_more_blocks_than_one_program_takes_are_scored() -> None:
    slots, known = table(3, 2_500, 1, 5), learned(3, 5, 30)

    fast, plain = (
        _scores(kernels, slots, known, (0.5, 0.3, 0.2, 1.0), 65_000) for kernels in (TRITON, REFERENCE)
    )

    torch.testing.assert_close(fast, plain, rtol=2e-6, atol=1e-6)


@both
def test_what_does_not_fit_is_refused(kernels: Kernels) -> None:
    block = _block(last_access_ms=[0])

    with pytest.raises(ValueError, match=r"weights: shape \(3,\) is not \(4,\)"):
        kernels.score(block, CLASSES, tensor([1.0, 1.0, 1.0], torch.float32), integer(0))
    with pytest.raises(ValueError, match=r"now_ms: torch.int64 is not torch.int32"):
        kernels.score(block, CLASSES, tensor(INDEX, torch.float32), integer(0).long())
    with pytest.raises(ValueError, match=r"entropy: shape \(1, 2\) is not \(1, 1\)"):
        replace(block, entropy=torch.zeros((1, 2), device=DEVICE))
    with pytest.raises(ValueError, match=r"spatial: strides \(0,\) are not contiguous"):
        _ = Slots(**{**_fields(table(1, 3, 1, 1)), "spatial": torch.zeros(1, device=DEVICE).expand(3)})
    with pytest.raises(ValueError, match=r"reuse: shape \(0, 3\) has no class or no age"):
        replace(CLASSES, reuse=torch.zeros((0, 3), device=DEVICE))
    with pytest.raises(ValueError, match=r"spatial: meta is not .+, where the rest is"):
        replace(block, spatial=block.spatial.to("meta"))


def _fields(slots: Slots) -> dict[str, Tensor]:
    return {name: getattr(slots, name) for name in Slots.__dataclass_fields__}
