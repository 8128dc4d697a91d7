"""Run the lab's long jobs as processes of their own: `python -m kvtune_lab drive --help`.

Started by the command line. Prints one JSON object a line: {"event": "prefilled", ...} once, {"event":
"ended", ...} last, or {"event": "failed", "reason": ...} and exit code 2 for bad input. `record` writes
generated requests as a trace, for those who have none at hand.
"""

import argparse
import asyncio
import json
import logging
import signal
import sys
from collections.abc import Iterator
from io import TextIOWrapper
from itertools import islice
from pathlib import Path

from kvtune_api.recordings import Recorded
from kvtune_lab.clock import ScaledClock
from kvtune_lab.driver import DriverConfig, DriverTally, run_driver
from kvtune_lab.generator import generate
from kvtune_lab.posting import PostingConfig
from kvtune_lab.readers.errors import TraceError
from kvtune_lab.readers.mooncake import repeat_mooncake
from kvtune_lab.readers.recording import write_recording
from kvtune_lab.traffic import Request
from kvtune_lab.whole_files import replacing
from kvtune_lab.workload import WORKLOADS

RECORDED_BLOCK_TOKENS = 128
GENERATED = "what is generated: chat, or mixed (chat and documents asked about once)"
HINTED = "share of the generated requests whose client tells when the session returns, or that it is over"


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    top = argparse.ArgumentParser(prog="python -m kvtune_lab", description=__doc__)
    jobs = top.add_subparsers(dest="job", required=True)
    drive = jobs.add_parser("drive", help="send a workload to replay agents on the scaled clock")
    drive.add_argument("--agents", required=True, help="addresses, separated by commas")
    drive.add_argument("--token-file", type=Path, help="file with the bearer token")
    drive.add_argument("--origin", type=float, required=True, help="unix seconds of virtual second 0")
    drive.add_argument("--speed", type=float, default=1.0, help="virtual seconds per second")
    drive.add_argument("--rate", type=float, default=5.0, help="generated requests per second and agent")
    drive.add_argument("--seed", type=int, default=1, help="seed of the generator")
    drive.add_argument("--workload", choices=list(WORKLOADS), default="chat", help=GENERATED)
    drive.add_argument("--hinted-share", type=float, default=0.0, help=HINTED)
    drive.add_argument("--trace", type=Path, help="Mooncake JSONL to repeat instead of generating")
    drive.add_argument("--prefill", type=float, default=1200.0, help="virtual seconds sent before the origin")
    drive.add_argument("--batch", type=float, default=5.0, help="virtual seconds per batch")
    drive.add_argument("--stop-on-eof", action="store_true", help="stop when standard input closes")
    record = jobs.add_parser("record", help="write generated requests as a trace")
    record.add_argument("file", type=Path, help="where to; kvtune's own format of recordings")
    record.add_argument("--requests", type=int, default=10_000, help="how many")
    record.add_argument("--rate", type=float, default=5.0, help="requests per second")
    record.add_argument("--seed", type=int, default=1, help="seed of the generator")
    record.add_argument("--workload", choices=list(WORKLOADS), default="chat", help=GENERATED)
    record.add_argument("--hinted-share", type=float, default=0.0, help=HINTED)
    return top


def workload(arguments: argparse.Namespace, agents: int) -> Iterator[Request]:
    """Choose the trace or the generator."""
    if arguments.trace is not None:
        return repeat_mooncake(arguments.trace)
    return generate(
        requests_per_second=arguments.rate * agents,
        seed=arguments.seed,
        kinds=WORKLOADS[arguments.workload],
        hinted_share=arguments.hinted_share,
    )


async def drive(arguments: argparse.Namespace) -> None:
    """Drive until a signal, end of input, or the end of the workload; raises OSError without the token."""
    if arguments.token_file is not None:
        arguments.token_file.read_bytes()  # later it may be missing for a while, as it is renewed
    config = DriverConfig(
        agents=tuple(url for url in arguments.agents.split(",") if url),
        posting=PostingConfig(token_file=arguments.token_file),
        prefill_seconds=arguments.prefill,
        batch_seconds=arguments.batch,
    )
    clock = ScaledClock(origin_unix_s=arguments.origin, speed=arguments.speed)
    stop, tally = asyncio.Event(), DriverTally()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    watching = [asyncio.create_task(_say_prefilled(tally))]
    if arguments.stop_on_eof:
        watching.append(asyncio.create_task(_stop_on_eof(stop)))
    try:
        await run_driver(config, workload(arguments, len(config.agents)), clock, stop, tally)
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        _say({"event": "ended", **tally.as_json()})


def record(arguments: argparse.Namespace) -> None:
    """Write generated requests; raises ValueError, or OSError where the file cannot be written."""
    if arguments.requests < 1:
        raise ValueError(f"requests: {arguments.requests} is less than 1")
    requests = generate(
        requests_per_second=arguments.rate,
        seed=arguments.seed,
        kinds=WORKLOADS[arguments.workload],
        block_tokens=RECORDED_BLOCK_TOKENS,
        hinted_share=arguments.hinted_share,
    )
    rows = (
        Recorded(
            arrival_s=request.arrival_s,
            blocks=request.blocks,
            prompt_tokens=request.prompt_tokens,
            output_tokens=request.output_tokens,
            session=str(request.session),
            hint=request.hint,
        )
        for request in islice(requests, arguments.requests)
    )
    with replacing(arguments.file) as packed, TextIOWrapper(packed, "utf-8", write_through=True) as file:
        written = write_recording(file, rows, block_tokens=RECORDED_BLOCK_TOKENS)
    _say({"event": "recorded", "requests": written, "file": str(arguments.file)})


async def _say_prefilled(tally: DriverTally) -> None:
    await tally.prefilled.wait()
    _say({"event": "prefilled", **tally.as_json()})


async def _stop_on_eof(stop: asyncio.Event) -> None:
    """Set the stop when standard input closes, so that no driver outlives the one who started it."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    while await reader.read(1024):
        pass
    stop.set()


def _say(event: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def main(argv: list[str] | None = None) -> int:
    """Run one job; return the exit code."""
    arguments = parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    try:
        if arguments.job == "record":
            record(arguments)
        else:
            asyncio.run(drive(arguments))
    except (TraceError, ValueError, OSError) as error:
        _say({"event": "failed", "reason": str(error)})
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
