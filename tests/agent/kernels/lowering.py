"""Compile every kernel for a GPU that need not be here, and print what came out: `python -m ...lowering`.

A process of its own, since where TRITON_INTERPRET is set kernels are not compiled.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kvtune_agent.kernels import attention, blockcopy, score, select

ARCHITECTURES = (80, 90)
"""Ampere and Hopper."""

ALIGNED = 16
"""Torch's allocations are, and so are strides of a usual cache: Triton is told so at a launch."""

TYPES = {
    "scores_ptr": "*fp32",
    "flags_ptr": "*u8",
    "marks_ptr": "*u8",
    "entropy_ptr": "*fp32",
    "spatial_ptr": "*fp32",
    "reuse_ptr": "*fp32",
    "edges_ptr": "*fp32",
    "window_ptr": "*fp32",
    "weights_ptr": "*fp32",
    "attention_ptr": "*bf16",
    "evenness_ptr": "*fp32",
    "cache_ptr": "*i64",
    "staging_ptr": "*i64",
    "per_maximum": "fp32",
}
"""Types of arguments by name; other pointers are *i32, other numbers i32."""


def launches() -> Iterator[tuple[str, Any, dict[str, object], int]]:
    """Every kernel with the constants and warps that it is launched with."""
    yield "score", score._score, {"AGES": 30, "TILE": 64, "WIDTH": 16}, 4
    for number in (0, select.PASSES - 1):
        yield f"histogram {number}", select._histogram, {"PASS": number, "TILE": select.TILE}, select.WARPS
    yield "count", select._count, {"TILE": select.TILE}, 4
    yield "compact", select._compact, {"TILE": select.TILE}, 4
    words = blockcopy.BYTES_PER_PROGRAM // 8
    yield "gather", blockcopy._move, {"TO_STAGING": True, "TILE": words}, blockcopy.WARPS
    yield "scatter", blockcopy._move, {"TO_STAGING": False, "TILE": words}, blockcopy.WARPS
    yield "entropy", attention._entropy, {"TILE": attention.TILE}, 4


def instructions(kernel: Any, constants: dict[str, object], warps: int, architecture: int) -> list[str]:
    """Which loads and stores of global memory the kernel is made of."""
    names = kernel.arg_names
    signature = {
        name: "constexpr"
        if name in constants
        else TYPES.get(name, "*i32" if name.endswith("_ptr") else "i32")
        for name in names
    }
    aligned = {
        (names.index(name),): [["tt.divisibility", ALIGNED]]
        for name in names
        if name.endswith("_ptr") or name in ("words", "layer_stride", "half_stride", "block_stride")
    }
    source = ASTSource(
        kernel, signature, {(names.index(name),): value for name, value in constants.items()}, aligned
    )
    made = triton.compile(source, target=GPUTarget("cuda", architecture, 32), options={"num_warps": warps})
    return sorted(set(re.findall(r"\b(?:ld|st)\.global[.\w:]*", made.asm["ptx"])))


if __name__ == "__main__":
    print(  # noqa: T201 - the answer to the test that started this process
        json.dumps(
            {
                f"{name} sm_{architecture}": instructions(kernel, constants, warps, architecture)
                for architecture in ARCHITECTURES
                for name, kernel, constants, warps in launches()
            }
        )
    )
