"""What an engine costs: the constants of the accelerators that a replay stands for.

Called by serving.py's users, who choose a preset by name. Every figure carries its source; a replay is not a
measurement of that accelerator, only a queue with its proportions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConstants:
    """Sizes and costs of one engine's serving path; a single server that works on one prefill at a time.

    `base_seconds` is paid by every request, `prefill_seconds_per_token` by every token not hit,
    `host_load_seconds_per_block` by every block hit on the host tier, `pass_stall_seconds` by every
    eviction pass and `pass_stall_seconds_per_block` by every block a pass frees. Decoding is not on this
    path. Raises ValueError for sizes < 1 and costs < 0.
    """

    name: str
    block_tokens: int = 128
    block_bytes: int = 16 * 1024 * 1024
    device_blocks: int
    prefill_seconds_per_token: float
    base_seconds: float
    host_load_seconds_per_block: float
    pass_stall_seconds: float
    pass_stall_seconds_per_block: float

    def __post_init__(self) -> None:
        """Refuse sizes and costs that no engine has."""
        for field in ("block_tokens", "block_bytes", "device_blocks"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field}: {getattr(self, field)} is less than 1")
        for field in (
            "prefill_seconds_per_token",
            "base_seconds",
            "host_load_seconds_per_block",
            "pass_stall_seconds",
            "pass_stall_seconds_per_block",
        ):
            if not getattr(self, field) >= 0:
                raise ValueError(f"{field}: {getattr(self, field)} is not at least 0")


H100_LLAMA8B = EngineConstants(
    name="h100-llama8b",
    block_tokens=128,
    # Llama 3.1 8B, bf16: 32 layers x 8 KV heads x 128 values x 2 (K and V) x 2 bytes = 128 KiB a token.
    block_bytes=16 * 1024 * 1024,
    # 4 GiB of the accelerator's memory left to prefix caching beside weights and running requests (assumed).
    device_blocks=256,
    # 2 x 8.0e9 FLOP a token at 989 TFLOP/s (H100 SXM data sheet, dense bf16) and .45 of it is 36 us; scaled
    # by 1.55 so that 5 requests/s of the lab's chat use .5-.6 of the server at the demo's poor start.
    prefill_seconds_per_token=56e-6,
    # Scheduling, tokenisation and the first decode step (assumed).
    base_seconds=0.008,
    # 16 MiB over PCIe 5.0 x16 at 50 GB/s of its 63 GB/s.
    host_load_seconds_per_block=0.00034,
    # Bookkeeping of a batch eviction on the scheduler's thread: fixed part assumed, 9-31 us a block is what
    # stock vLLM takes for a store (cache.md); the middle of it.
    pass_stall_seconds=0.010,
    pass_stall_seconds_per_block=20e-6,
)

H100_LLAMA8B_512 = replace(
    H100_LLAMA8B,
    name="h100-llama8b-512",
    # The same engine with the 512-token blocks of Mooncake's traces: four times the bytes, a quarter as many.
    block_tokens=512,
    block_bytes=64 * 1024 * 1024,
    device_blocks=64,
    host_load_seconds_per_block=0.00136,
    pass_stall_seconds_per_block=80e-6,
)

CPU_TINY = EngineConstants(
    name="cpu-tiny",
    # Random 27.8 M parameter Qwen2 on one CPU thread: 8 layers x 4 KV heads x 64 values x 2 x 2 bytes = 8
    # KiB a token.
    block_tokens=128,
    block_bytes=1024 * 1024,
    device_blocks=100,
    # Cold 1,024 tokens 424 ms, hit 20 ms (engine-vllm.md): .41 ms a missed token, so 1.3 requests/s at most.
    prefill_seconds_per_token=0.41e-3,
    # A prefix hit of 512 tokens takes 18 ms (same table).
    base_seconds=0.018,
    # Host-tier hit of 1,024 tokens 33 ms against 20 ms on the device: 13 ms for 8 blocks (same file).
    host_load_seconds_per_block=0.0016,
    pass_stall_seconds=0.010,
    pass_stall_seconds_per_block=20e-6,
)

PRESETS: Mapping[str, EngineConstants] = MappingProxyType(
    {preset.name: preset for preset in (H100_LLAMA8B, H100_LLAMA8B_512, CPU_TINY)}
)
