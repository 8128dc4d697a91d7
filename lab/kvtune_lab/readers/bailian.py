"""Read traces in the format of Qwen-Bailian: one JSON object a line, blocks of 16 tokens.

Fields (alibaba-edu/qwen-bailian-usagetraces-anon, README): `chat_id`, `parent_chat_id` (-1 for the first
request of a conversation), `timestamp` seconds, `input_length`, `output_length` tokens, `type` (text, search,
image, file), `turn` from 1, `hash_ids`. Sessions are the trees of chats. A last block that is not full may be
there or not.

Errors: TraceError.
"""

from typing import Any

from kvtune_lab.readers.fields import block_ids, given, number_from_zero, partial_or_full, whole
from kvtune_lab.readers.loaded import UNKNOWN, Format, Loaded
from kvtune_lab.readers.packing import Packing, Row, tokens_of
from kvtune_lab.readers.source import Source, shown

BLOCK_TOKENS = 16
_NO_PARENT = -1


def load_bailian(source: Source) -> Loaded:
    """Read all requests into arrays."""
    roots: dict[int, int] = {}

    def parse(number: int, row: dict[str, Any]) -> Row:
        chat = whole(source, number, row, "chat_id", 0)
        parent = whole(source, number, row, "parent_chat_id", _NO_PARENT)
        time_s = number_from_zero(source, number, row, "timestamp", "seconds")
        prompt = whole(source, number, row, "input_length", 0)
        answer = whole(source, number, row, "output_length", 0)
        turn = whole(source, number, row, "turn", 1) if "turn" in row else UNKNOWN
        kind = given(source, number, row, "type")
        if not isinstance(kind, str):
            raise source.error(number, "type", f"{shown(kind)} is not a word")
        blocks = block_ids(source, number, row, "hash_ids")
        partial_or_full(
            source, number, blocks, prompt_tokens=prompt, block_tokens=BLOCK_TOKENS, name="hash_ids"
        )
        roots[chat] = chat if parent == _NO_PARENT else roots.get(parent, parent)
        return Row(
            time_s=time_s,
            blocks=blocks,
            tokens=tokens_of(prompt, len(blocks), BLOCK_TOKENS),
            output_tokens=answer,
            kind=kind,
            session=roots[chat],
            turn=turn,
        )

    packing = Packing(source, time_field="timestamp", blocks_field="hash_ids")
    packing.add_all(source.rows(parse))
    return packing.loaded(Format.BAILIAN, block_tokens=BLOCK_TOKENS)
