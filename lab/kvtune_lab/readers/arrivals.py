"""Read traces of arrivals alone: Azure's requests with their lengths, ServeGen's rates of clients.

Neither tells of blocks, so neither can be simulated. Azure (AzurePublicDataset, Splitwise, ISCA 2024):
`TIMESTAMP` (date and time), `ContextTokens`, `GeneratedTokens`. ServeGen (alibaba/ServeGen, merged):
`category`, `model`, `client`, `t_s`, `rate_rps`, `cv`, `dist`, `param1`, `param2`; steps with a rate of 0 are
left out of it.

Errors: TraceError.
"""

import csv
from array import array
from collections.abc import Iterator
from datetime import UTC, datetime

from kvtune_lab.readers.errors import TraceError
from kvtune_lab.readers.fields import MOST, written_number
from kvtune_lab.readers.loaded import LACKS, Arrivals, ClientRates, Format
from kvtune_lab.readers.packing import numbered, refuse_empty
from kvtune_lab.readers.source import Source, shown

AZURE_FIELDS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
SERVEGEN_FIELDS = ("category", "model", "client", "t_s", "rate_rps", "cv", "dist", "param1", "param2")
SERVEGEN_STEP_SECONDS = 600.0


def load_azure(source: Source) -> Arrivals:
    """Read all arrivals."""
    import numpy as np

    times, prompts, outputs = array("d"), array("i"), array("i")
    for number, cells in _table(source, AZURE_FIELDS):
        try:
            seconds = _instant(source, number, cells[0])
            if times and seconds < times[-1]:
                raise source.error(number, "TIMESTAMP", f"{shown(cells[0])} is before the line before it")
            prompt = int(_cell(source, number, AZURE_FIELDS[1], cells[1], whole=True))
            answer = int(_cell(source, number, AZURE_FIELDS[2], cells[2], whole=True))
        except TraceError as error:
            source.skips.take(error)
            continue
        times.append(seconds)
        prompts.append(prompt)
        outputs.append(answer)
    refuse_empty(source, len(times), len(times), "TIMESTAMP")
    return Arrivals(
        times=np.asarray(times) - times[0],
        prompts=np.asarray(prompts, np.int32),
        outputs=np.asarray(outputs, np.int32),
        format=Format.AZURE,
        notes=LACKS[Format.AZURE],
        skipped=source.skips.skipped,
    )


def load_servegen(source: Source) -> ClientRates:
    """Read all rates; a client is a category, a model and a number."""
    import numpy as np

    times, rates, variations, clients = array("d"), array("d"), array("d"), array("i")
    names: dict[tuple[str, str, str], int] = {}
    for number, cells in _table(source, SERVEGEN_FIELDS):
        try:
            row = [_cell(source, number, SERVEGEN_FIELDS[i], cells[i]) for i in (3, 4, 5)]
        except TraceError as error:
            source.skips.take(error)
            continue
        times.append(row[0])
        rates.append(row[1])
        variations.append(row[2])
        clients.append(numbered(names, (cells[0], cells[1], cells[2])))
    refuse_empty(source, len(times), len(times), "rate_rps")
    return ClientRates(
        times=np.asarray(times),
        rates=np.asarray(rates),
        variations=np.asarray(variations),
        clients=np.asarray(clients, np.int32),
        step_seconds=SERVEGEN_STEP_SECONDS,
        format=Format.SERVEGEN,
        notes=LACKS[Format.SERVEGEN],
        skipped=source.skips.skipped,
    )


def _table(source: Source, fields: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    """Number the rows below the heading."""
    for number, line in source.lines():
        try:
            cells = next(csv.reader([line.decode()]))
        except (UnicodeDecodeError, csv.Error) as error:
            source.skips.take(source.error(number, "line", f"{shown(line)} is not CSV: {error}"))
            continue
        if tuple(cells) == fields:
            continue
        if len(cells) != len(fields):
            problem = f"{shown(line)} has {len(cells)} values where {len(fields)} belong"
            source.skips.take(source.error(number, "line", problem))
            continue
        yield number, cells


def _instant(source: Source, number: int, text: str) -> float:
    """Seconds since 1970; a time without an offset is in UTC."""
    try:
        told = datetime.fromisoformat(text)
        return (told if told.tzinfo is not None else told.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise source.error(number, "TIMESTAMP", f"{shown(text)} is not a date and time") from error


def _cell(source: Source, number: int, field: str, text: str, *, whole: bool = False) -> float:
    value = written_number(text, whole=whole)
    if value is None or value > MOST:
        what = "whole number" if whole else "number"
        raise source.error(number, field, f"{shown(text)} is not a {what} >= 0")
    return value
