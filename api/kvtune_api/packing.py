"""Fields that a Kubernetes object carries as one string: long lists that would drown `kubectl describe`.

`Packed` marks such a field. It is read in both forms; `codec.dump(value, packed=True)` writes the string:
base64 of the gzipped canonical JSON, the same for the same value.
"""

import base64
import binascii
import gzip
import json
import zlib
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

PACKED_MAX_LENGTH = 1 << 20
UNPACKED_MAX_BYTES = 16 << 20
PACK_CONTEXT = "packed"


def pack(plain: Any) -> str:
    """One string of plain data; equal data give equal strings."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


def unpack(value: object) -> object:
    """Plain data of a packed string; what is no string is returned as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(_inflated(base64.b64decode(value, validate=True)))
    except (binascii.Error, zlib.error, ValueError, UnicodeDecodeError) as error:
        raise PydanticCustomError(
            "packed_form", "is not packed data (base64 of gzipped JSON): {why}", {"why": str(error)}
        ) from error


def _inflated(data: bytes) -> bytes:
    """The unpacked bytes, at most `UNPACKED_MAX_BYTES` of them."""
    machine = zlib.decompressobj(wbits=31)
    found = machine.decompress(data, UNPACKED_MAX_BYTES)
    if machine.unconsumed_tail or not machine.eof:
        raise ValueError(f"cut short, or more than {UNPACKED_MAX_BYTES} bytes")
    return found


@dataclass(frozen=True, slots=True)
class Packed:
    """Mark a field as one string in Kubernetes objects (`Annotated[..., Packed()]`)."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner = handler(source)
        return core_schema.no_info_before_validator_function(
            unpack,
            inner,
            serialization=core_schema.wrap_serializer_function_ser_schema(
                _written, schema=inner, info_arg=True
            ),
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"type": "string", "maxLength": PACKED_MAX_LENGTH}


def _written(
    value: Any, handler: core_schema.SerializerFunctionWrapHandler, info: core_schema.SerializationInfo
) -> Any:
    plain = handler(value)
    asked = isinstance(info.context, dict) and info.context.get(PACK_CONTEXT)
    return pack(plain) if asked and plain is not None else plain
