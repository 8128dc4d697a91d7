"""The KV bytes that a model keeps for one token, from its shape as a person writes it.

Called by the commands that take sizes in bytes: `layers=32,kv_heads=8,head_dim=128,dtype=bf16`, or the name
of a preset, optionally with another dtype (`llama-3.1-8b,dtype=fp8`). Models with a latent instead of heads
(MLA, DeepSeek-V2 report, section 2.1) give its values per layer: `layers=61,latent=576`.

Errors: ShapeError (a ValueError) names the part, its value and what was expected.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

MOST_TOKEN_BYTES = 1 << 30
"""The largest models keep some MiB; so much times the tokens of a trace is still a number of 64 bits."""


class ShapeError(ValueError):
    """Tell the user what is wrong with a model's shape."""


class Dtype(StrEnum):
    """How a value of the KV cache is stored."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"


_BITS: Mapping[Dtype, int] = MappingProxyType(
    {Dtype.FP32: 32, Dtype.FP16: 16, Dtype.BF16: 16, Dtype.FP8: 8, Dtype.INT8: 8, Dtype.INT4: 4}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """What decides the bytes of a token; `latent` values a layer replace heads where it is not 0.

    Raises ShapeError for a part that is less than 1, and for more than MOST_TOKEN_BYTES.
    """

    layers: int
    kv_heads: int = 0
    head_dim: int = 0
    latent: int = 0
    dtype: Dtype = Dtype.BF16

    def __post_init__(self) -> None:
        """Refuse a shape that keeps nothing, or two kinds of values."""
        parts = ("layers", "latent") if self.latent else ("layers", "kv_heads", "head_dim")
        for name in parts:
            if getattr(self, name) < 1:
                raise ShapeError(f"{name}: {getattr(self, name)} is less than 1")
        if self.latent and (self.kv_heads or self.head_dim):
            raise ShapeError(f"latent: {self.latent} stands beside kv_heads or head_dim, which it replaces")
        if self.bytes_per_token > MOST_TOKEN_BYTES:
            raise ShapeError(f"{self.bytes_per_token:,} bytes a token are above {MOST_TOKEN_BYTES:,}")

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token over all layers: keys and values of every KV head, or the latent once."""
        values = self.latent or 2 * self.kv_heads * self.head_dim
        return -(-self.layers * values * _BITS[self.dtype] // 8)

    def __str__(self) -> str:
        """The shape as `parse_shape` reads it."""
        parts = (
            f"latent={self.latent}" if self.latent else f"kv_heads={self.kv_heads},head_dim={self.head_dim}"
        )
        return f"layers={self.layers},{parts},dtype={self.dtype}"


PRESETS: Mapping[str, ModelShape] = MappingProxyType(
    {
        # num_hidden_layers, num_key_value_heads and head_dim (or hidden_size / num_attention_heads) of the
        # config.json that each model's makers publish.
        "llama-2-13b": ModelShape(layers=40, kv_heads=40, head_dim=128, dtype=Dtype.FP16),
        "llama-3.1-8b": ModelShape(layers=32, kv_heads=8, head_dim=128),
        "llama-3.1-70b": ModelShape(layers=80, kv_heads=8, head_dim=128),
        "llama-3.1-405b": ModelShape(layers=126, kv_heads=8, head_dim=128),
        "qwen2-7b": ModelShape(layers=28, kv_heads=4, head_dim=128),
        "qwen2.5-72b": ModelShape(layers=80, kv_heads=8, head_dim=128),
        "qwen3-8b": ModelShape(layers=36, kv_heads=8, head_dim=128),
        "qwen3-32b": ModelShape(layers=64, kv_heads=8, head_dim=128),
        # kv_lora_rank 512 + qk_rope_head_dim 64, kept once for keys and values.
        "deepseek-v3": ModelShape(layers=61, latent=576),
    }
)
"""Shapes of well-known models, by name."""


def parse_shape(text: str) -> ModelShape:
    """Read a shape: a preset's name, `part=value` pairs, or a name followed by pairs that replace its parts.

    Raises ShapeError.
    """
    first, *rest = [part.strip() for part in text.split(",")]
    if "=" in first:
        return _built(_pairs([first, *rest]))
    if first not in PRESETS:
        raise ShapeError(f"{first!r} is neither a part such as layers=32 nor one of {', '.join(PRESETS)}")
    shape = PRESETS[first]
    pairs = _pairs(rest)
    dtype = _dtype(pairs.pop("dtype", shape.dtype))
    return replace(shape, dtype=dtype, **{name: _number(name, value) for name, value in pairs.items()})


_PARTS = ("layers", "kv_heads", "head_dim", "latent", "dtype")


def _pairs(parts: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in parts:
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or name not in _PARTS:
            raise ShapeError(f"{part!r} is not one of {', '.join(_PARTS)} with =VALUE")
        if name in pairs:
            raise ShapeError(f"{name}: given twice, {pairs[name]} and {value}")
        pairs[name] = value
    return pairs


def _built(pairs: dict[str, str]) -> ModelShape:
    dtype = _dtype(pairs.pop("dtype", Dtype.BF16))
    needed = ("layers", "latent") if "latent" in pairs else ("layers", "kv_heads", "head_dim")
    missing = [name for name in needed if name not in pairs]
    if missing:
        raise ShapeError(f"{missing[0]}: is missing")
    return ModelShape(dtype=dtype, **{name: _number(name, value) for name, value in pairs.items()})


def _number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise ShapeError(f"{name}: {value!r} is not a whole number from 1 to 999999999")
    return int(value)


def _dtype(value: str) -> Dtype:
    if value not in list(Dtype):
        raise ShapeError(f"dtype: {value!r} is not one of {', '.join(Dtype)}")
    return Dtype(value)
