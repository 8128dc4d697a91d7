"""Bytes of a token, from a model's shape."""

import pytest

from kvtune_lab.model_shape import PRESETS, Dtype, ModelShape, ShapeError, parse_shape


def test_parts_are_read_in_any_order() -> None:
    shape = parse_shape("dtype=fp16, head_dim=128,kv_heads=8,layers=32")
    assert shape == ModelShape(layers=32, kv_heads=8, head_dim=128, dtype=Dtype.FP16)
    assert shape.bytes_per_token == 128 * 1024


@pytest.mark.parametrize(
    ("text", "bytes_per_token"),
    [
        ("llama-3.1-8b", 131_072),
        ("llama-3.1-8b,dtype=fp8", 65_536),
        ("layers=32,kv_heads=8,head_dim=128,dtype=int4", 32_768),
        ("llama-3.1-70b", 327_680),
        ("deepseek-v3", 70_272),
        ("layers=61,latent=576,dtype=fp32", 140_544),
        ("qwen2-7b,layers=1", 2_048),
    ],
)
def test_bytes_of_a_token(text: str, bytes_per_token: int) -> None:
    assert parse_shape(text).bytes_per_token == bytes_per_token


@pytest.mark.parametrize("name", PRESETS)
def test_a_shape_is_written_as_it_is_read(name: str) -> None:
    assert parse_shape(str(PRESETS[name])) == PRESETS[name]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gpt-9", "'gpt-9' is neither a part such as layers=32 nor one of llama-2-13b, llama-3.1-8b"),
        ("", "'' is neither a part"),
        ("layers=32", "kv_heads: is missing"),
        ("layers=0,kv_heads=8,head_dim=128", "layers: 0 is less than 1"),
        ("layers=-1,kv_heads=8,head_dim=128", "layers: '-1' is not a whole number"),
        ("layers=nan,kv_heads=8,head_dim=128", "layers: 'nan' is not a whole number"),
        ("layers=2,layers=3", "layers: given twice, 2 and 3"),
        ("heads=32", "'heads=32' is not one of layers, kv_heads, head_dim, latent, dtype with =VALUE"),
        ("llama-3.1-8b,fp8", "'fp8' is not one of layers"),
        ("llama-3.1-8b,dtype=fp7", "dtype: 'fp7' is not one of fp32, fp16, bf16, fp8, int8, int4"),
        ("llama-3.1-8b,latent=512", "latent: 512 stands beside kv_heads or head_dim, which it replaces"),
    ],
)
def test_a_wrong_shape_is_told(text: str, says: str) -> None:
    with pytest.raises(ShapeError) as error:
        parse_shape(text)
    assert says in str(error.value)
