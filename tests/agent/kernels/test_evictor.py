"""The evictor: buckets, padding, other weights without a new capture; the capture itself where a GPU is."""

import pytest
import torch

from kvtune_agent.kernels.choice import REFERENCE, TRITON, Kernels, kernels_for
from kvtune_agent.kernels.evictor import Evictor, bucket, buckets
from kvtune_agent.kernels.layout import Flag, Slots
from tests.agent.kernels.tables import DEVICE, EVICTABLE, integer, learned, paged, raw, table, tensor

both = pytest.mark.parametrize("kernels", [REFERENCE, TRITON], ids=["reference", "triton"])

BLOCKS = 60
TOKEN_LRU = (0.0, 0.0, 0.0, 1.0)
NOW_MS = 65_000


def _evictor(kernels: Kernels, slots: Slots, largest: int = 40) -> tuple[Evictor, torch.Tensor]:
    cache = paged(7, (2, 2, len(slots.flags), 2, 1, 4), torch.float16)
    evictor = Evictor(cache, slots, learned(7, 3, 5), largest=largest, kernels=kernels)
    evictor.weigh(TOKEN_LRU)
    return evictor, cache


@pytest.mark.parametrize(
    ("wanted", "largest", "size"),
    [
        *[(0, 100, 16), (1, 100, 16), (16, 100, 16), (17, 100, 32), (64, 100, 64), (65, 100, 100)],
        *[(100, 100, 100), (3, 5, 5), (64, 64, 64), (1, 1, 1)],
    ],
)
def test_the_smallest_bucket_with_room_is_taken(wanted: int, largest: int, size: int) -> None:
    assert bucket(wanted, largest) == size
    assert size in buckets(largest)


@pytest.mark.parametrize("wanted", [-1, 101])
def test_more_than_the_largest_bucket_or_less_than_nothing_is_refused(wanted: int) -> None:
    with pytest.raises(ValueError, match=rf"wanted: {wanted} is not in 0 to 100"):
        bucket(wanted, 100)


@both
def test_the_lowest_scored_blocks_are_copied_out_and_the_rest_is_padding(kernels: Kernels) -> None:
    slots = table(11, BLOCKS, 3, 3)
    slots.flags.fill_(EVICTABLE)
    evictor, cache = _evictor(kernels, slots)

    evicted = evictor.evict(20, NOW_MS)

    assert evicted.slots.shape == (32,) and int(evicted.count) == 20
    assert evicted.slots[20:].tolist() == [-1] * 12
    scores = REFERENCE.score(slots, learned(7, 3, 5), tensor(TOKEN_LRU, torch.float32), integer(NOW_MS))
    chosen = evicted.slots[:20].long()
    kept = torch.ones(BLOCKS, dtype=torch.bool, device=DEVICE).index_fill(0, chosen, False)
    assert scores[chosen].max() <= scores[kept].min() + 1e-6
    assert torch.equal(raw(evicted.staging[:20]), raw(cache[:, :, chosen].permute(2, 0, 1, 3, 4, 5)))


@both
def test_the_table_is_read_anew_at_each_eviction(kernels: Kernels) -> None:
    slots = table(12, BLOCKS, 1, 3)
    slots.flags.fill_(EVICTABLE)
    evictor, _ = _evictor(kernels, slots)
    first = evictor.evict(5, NOW_MS).slots[:5].tolist()

    slots.flags[first] = int(Flag.RESIDENT | Flag.PINNED)
    second = evictor.evict(5, NOW_MS).slots[:5].tolist()
    slots.flags.fill_(0)
    third = evictor.evict(5, NOW_MS)

    assert not set(first) & set(second)
    assert int(third.count) == 0
    assert evictor.recorded == {16}


@both
def test_other_weights_take_effect_without_recording_again(kernels: Kernels) -> None:
    slots = table(13, BLOCKS, 1, 3)
    slots.flags.fill_(EVICTABLE)
    evictor, _ = _evictor(kernels, slots)
    evictor.evict(5, NOW_MS)

    evictor.weigh((0.0, 1.0, 0.0, 0.0))
    evicted = evictor.evict(5, NOW_MS)

    assert evicted.slots[:5].tolist() == slots.spatial.argsort()[:5].sort().values.tolist()
    assert evictor.recorded == {16}


@both
def test_warming_up_records_every_bucket_and_chooses_nothing(kernels: Kernels) -> None:
    evictor, _ = _evictor(kernels, table(14, BLOCKS, 1, 3))

    evictor.warm()

    assert evictor.recorded == {16, 32, 40}
    assert int(evictor.evict(0, NOW_MS).count) == 0


def test_what_does_not_fit_is_refused() -> None:
    cache, known = paged(7, (2, 2, 5, 2, 1, 4), torch.float16), learned(7, 3, 5)

    with pytest.raises(ValueError, match="largest: 0 is less than 1"):
        Evictor(cache, table(1, 5, 1, 3), known, largest=0, kernels=REFERENCE)
    with pytest.raises(ValueError, match="slots: 6 blocks are not the 5 of the cache"):
        Evictor(cache, table(1, 6, 1, 3), known, largest=2, kernels=REFERENCE)
    evictor, _ = _evictor(REFERENCE, table(1, 5, 1, 3))
    with pytest.raises(ValueError, match="weights: 3 are not 4"):
        evictor.weigh((1.0, 0.0, 0.0))


def test_triton_runs_on_a_gpu_and_torch_elsewhere() -> None:
    assert kernels_for(torch.device("cpu")) is REFERENCE
    assert kernels_for(torch.device("cuda")) is TRITON


@pytest.mark.skipif(
    DEVICE.type != "cuda", reason="no GPU: a CUDA graph cannot be captured here (`make gpu-check`)"
)
def test_a_replayed_graph_chooses_what_the_steps_choose() -> None:
    slots = table(15, BLOCKS, 4, 3)
    graph, _ = _evictor(TRITON, slots)
    plain, _ = _evictor(REFERENCE, slots)
    graph.warm()
    for wanted in (3, 40, 17, 0, 16):
        slots.last_access_ms.add_(1_000 * wanted)
        fast, steps = graph.evict(wanted, NOW_MS + 50_000), plain.evict(wanted, NOW_MS + 50_000)

        assert torch.equal(fast.slots, steps.slots)
        rows = int(steps.count)
        assert torch.equal(raw(fast.staging[:rows]), raw(steps.staging[:rows]))
