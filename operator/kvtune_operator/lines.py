"""Find the line of a field in YAML or JSON text, so that a person is told where to look."""

import math
from collections.abc import Iterator

import yaml

_Part = str | int


def root_of(text: str) -> yaml.Node | None:
    """The tree of a single YAML (or JSON) document with its marks; None when it is empty or unreadable."""
    try:
        return yaml.compose(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError):
        return None


def line_of(root: yaml.Node | None, path: str) -> int | None:
    """The 1-based line of a field (`spec.knobs.cacheTTL.min`, `rows[3].end`), or of its nearest parent."""
    if root is None:
        return None
    line, node, rest = root.start_mark.line + 1, root, path
    while rest:
        match node:
            case yaml.MappingNode():
                step = _into_mapping(node, rest)
            case yaml.SequenceNode():
                step = _into_sequence(node, rest)
            case _:
                return line
        if step is None:
            return line
        line, node, rest = step
    return line


def duplicate_keys(root: yaml.Node) -> Iterator[tuple[str, int]]:
    """Every key that stands twice in one mapping, with the line of its second appearance."""
    for node in nodes(root):
        if not isinstance(node, yaml.MappingNode):
            continue
        seen: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            name = str(key.value)
            if name in seen:
                yield f"{name} (first on line {seen[name]})", line
            seen.setdefault(name, line)


def nodes(root: yaml.Node) -> Iterator[yaml.Node]:
    """Every node once, aliases not followed twice."""
    stack, seen = [root], set[int]()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        stack += reversed(list(_children(node)))


def expanded_size(root: yaml.Node) -> float:
    """Characters and nodes of a tree with every alias written out; infinite where a node holds itself."""
    sizes: dict[int, float] = {}

    def size(node: yaml.Node) -> float:
        if id(node) in sizes:
            return sizes[id(node)]
        sizes[id(node)] = math.inf
        parts = [node.value] if isinstance(node, yaml.ScalarNode) else list(_children(node))
        found = 1.0 + sum(len(part) if isinstance(part, str) else size(part) for part in parts)
        sizes[id(node)] = found
        return found

    return size(root)


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    match node:
        case yaml.MappingNode():
            for pair in node.value:
                yield from pair
        case yaml.SequenceNode():
            yield from node.value


def _into_mapping(node: yaml.MappingNode, path: str) -> tuple[int, yaml.Node, str] | None:
    """Follow the longest key that `path` begins with (keys of labels hold dots)."""
    best: tuple[int, yaml.Node, str] | None = None
    length = -1
    for key, value in node.value:
        name = str(key.value)
        rest = path.removeprefix(name)
        if path.startswith(name) and len(name) > length and (not rest or rest[0] in ".["):
            best, length = (key.start_mark.line + 1, value, rest.removeprefix(".")), len(name)
    return best


def _into_sequence(node: yaml.SequenceNode, path: str) -> tuple[int, yaml.Node, str] | None:
    inside, bracket, rest = path.removeprefix("[").partition("]")
    if not path.startswith("[") or not bracket or not inside.isdigit() or int(inside) >= len(node.value):
        return None
    item = node.value[int(inside)]
    return item.start_mark.line + 1, item, rest.removeprefix(".")
