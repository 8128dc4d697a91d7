"""entropy: 0 for a slot that one query attends to, 1 where all do alike; kernel and reference agree."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtune_agent.kernels.choice import REFERENCE, TRITON, Kernels
from tests.agent.kernels.tables import DEVICE, seeds, tensor

both = pytest.mark.parametrize("kernels", [REFERENCE, TRITON], ids=["reference", "triton"])


@both
def test_one_query_gives_0_all_alike_give_1_and_nobody_gives_nan(kernels: Kernels) -> None:
    received = [[0.3, 0.0, 0.2, 0.0], [0.3, 0.9, 0.2, 0.0], [0.3, 0.0, 0.1, 0.0], [0.3, 0.0, 0.1, 0.0]]
    alike, once, unlike, never = kernels.entropy(tensor([received], torch.float32), 4).tolist()

    assert alike == pytest.approx(1, abs=1e-6)
    assert once == pytest.approx(0, abs=1e-6)
    nats = -2 * (1 / 3 * math.log(1 / 3) + 1 / 6 * math.log(1 / 6))
    assert unlike == pytest.approx(nats / math.log(4), abs=1e-6)
    assert math.isnan(never)


@both
def test_only_the_last_queries_count(kernels: Kernels) -> None:
    received = tensor([[[9.0], [0.5], [0.5]]], torch.float32)

    assert kernels.entropy(received, 2).item() == pytest.approx(1, abs=1e-6)


@both
def test_fewer_queries_than_the_window_cannot_reach_its_maximum(kernels: Kernels) -> None:
    received = tensor([[[0.5], [0.5]]], torch.float32)

    assert kernels.entropy(received, 8).item() == pytest.approx(math.log(2) / math.log(8), abs=1e-6)


@both
def test_what_the_heads_give_is_summed_before(kernels: Kernels) -> None:
    two_heads = tensor([[[1.0], [0.0]], [[0.0], [1.0]]], torch.float32)

    assert kernels.entropy(two_heads, 2).item() == pytest.approx(1, abs=1e-6)


@settings(max_examples=20)
@given(
    seed=seeds,
    heads=st.integers(0, 3),
    queries=st.integers(0, 7),
    slots=st.integers(0, 300),
    window=st.integers(2, 9),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
)
def test_kernel_and_reference_agree(
    seed: int, heads: int, queries: int, slots: int, window: int, dtype: torch.dtype
) -> None:
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn((heads, slots, queries), generator=random).mul(5).to(DEVICE)
    attention = logits.softmax(dim=1).to(dtype).transpose(1, 2)  # strides of another order
    attention[:, :, slots // 2 : slots // 2 + 1] = 0.0

    fast, plain = (kernels.entropy(attention, window) for kernels in (TRITON, REFERENCE))

    torch.testing.assert_close(fast, plain, rtol=0, atol=2e-5, equal_nan=True)
    known = fast[~fast.isnan()]
    assert ((known >= 0) & (known <= 1)).all()


@both
def test_what_does_not_fit_is_refused(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match="window: 1 is less than 2"):
        kernels.entropy(torch.zeros((1, 1, 1), device=DEVICE), 1)
    with pytest.raises(ValueError, match=r"attention: torch.int64 \(2,\) is not floating"):
        kernels.entropy(tensor([1, 2], torch.int64), 4)
