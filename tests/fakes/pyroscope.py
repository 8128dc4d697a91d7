"""A stand-in for a Pyroscope: renders flamebearers from stacks, by its documented request and answer."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

Stacks = Mapping[tuple[str, ...], int]
"""Samples by stack, from the root on."""

LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclass
class _Node:
    own: int = 0
    children: dict[str, "_Node"] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return self.own + sum(child.total for child in self.children.values())


def flamebearer(stacks: Stacks) -> dict[str, object]:
    """The answer of /pyroscope/render for some samples."""
    root = _Node()
    for stack, count in stacks.items():
        node = root
        for name in stack:
            node = node.children.setdefault(name, _Node())
        node.own += count
    names, levels = ["total"], list[list[int]]()
    row = [(0, "total", root)]
    while row:
        bars, end, below = list[int](), 0, list[tuple[int, str, _Node]]()
        for start, name, node in row:
            if name not in names:
                names.append(name)
            bars += [start - end, node.total, node.own, names.index(name)]
            end = start + node.total
            inner = start
            for child in sorted(node.children):
                below.append((inner, child, node.children[child]))
                inner += node.children[child].total
        levels.append(bars)
        row = below
    return {
        "version": 1,
        "flamebearer": {"names": names, "levels": levels, "numTicks": root.total, "maxSelf": 0},
        "metadata": {"format": "single", "units": "samples", "sampleRate": 100, "spyName": ""},
        "timeline": None,
    }


class FakePyroscope:
    """Samples by pod and their times; each query is answered from those that its labels and times select."""

    def __init__(self) -> None:
        self.samples: list[tuple[dict[str, str], float, Stacks]] = []
        self.queries: list[str] = []
        self.headers: list[dict[str, str]] = []

    def add(self, at: float, stacks: Stacks, **labels: str) -> None:
        """Record what a profile uploaded at a time holds."""
        self.samples.append((labels, at, stacks))

    def app(self) -> FastAPI:
        """The HTTP application."""
        app = FastAPI()

        @app.get("/pyroscope/render")
        async def render(request: Request) -> Response:
            asked = request.query_params
            if asked.get("format") != "json" or not {"query", "from", "until"} <= set(asked):
                return JSONResponse({"error": "bad request"}, status_code=400)
            self.queries.append(asked["query"])
            self.headers.append(dict(request.headers))
            wanted = {name: re.sub(r"\\(.)", r"\1", value) for name, value in LABEL.findall(asked["query"])}
            merged: dict[tuple[str, ...], int] = {}
            for labels, at, stacks in self.samples:
                within = float(asked["from"]) <= at < float(asked["until"])
                if within and all(labels.get(name) == value for name, value in wanted.items()):
                    for stack, count in stacks.items():
                        merged[stack] = merged.get(stack, 0) + count
            return JSONResponse(flamebearer(merged))

        return app
