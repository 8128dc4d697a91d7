"""docs/benchmarks.md: one section per benchmark, each with date, machine, command and seeds.

A section is rewritten as a whole whenever its benchmark has more results; the others stay as they are.
"""

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tests.benchmarks.table import Table, markdown

PATH = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"

HEAD = """# Benchmarks

Written by `make bench` and, what needs a cluster, `make bench-kubernetes` (`python -m tests.benchmarks [NAME
...] [--quick]`). Nothing here is asserted as a time: figures are those of one machine on one day, and each
section says which. Goals stand beside the figures; where one is missed, the table says so.
"""
_SECTION = re.compile(r"<!-- begin (\S+) -->\n(.*?)<!-- end \1 -->\n", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a section's figures come from."""

    name: str
    title: str
    day: date
    seeds: str
    seconds: float
    partial: bool


def machine() -> str:
    """Processor, cores, memory and Python of this machine, without its name."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text())
        model = found.group(1).strip() if found else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {cores} cores, {gib:.0f} GiB, {platform.system()}, Python {platform.python_version()}"


def section(origin: Provenance, tables: Sequence[Table]) -> str:
    """One benchmark's section."""
    state = " **Not finished: these are the results so far.**" if origin.partial else ""
    about = (
        f"Measured {origin.day.isoformat()} on {machine()}, by `python -m tests.benchmarks {origin.name}`; "
        f"{origin.seeds}; {origin.seconds:.0f} s on a machine that other work shared.{state}"
    )
    return "\n".join([f"## {origin.title}", "", about, "", *(markdown(table) for table in tables)])


def written(path: Path, name: str, text: str, order: Sequence[str]) -> None:
    """Put one section into the document, which keeps the order of `order`."""
    known = dict(_SECTION.findall(path.read_text())) if path.exists() else {}
    known[name] = text
    names = [one for one in order if one in known] + sorted(set(known) - set(order))
    parts = [HEAD, *(f"<!-- begin {one} -->\n{known[one].rstrip()}\n\n<!-- end {one} -->\n" for one in names)]
    fresh = path.with_suffix(".tmp")
    fresh.write_text("\n".join(parts))
    fresh.replace(path)
