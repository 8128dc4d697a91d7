"""Compile functions of kvtune_cache for arrays, by numba, and keep what was compiled.

The sources stay as they are: each function is copied together with the functions of kvtune_cache that it
calls, and the copies are compiled, so that callers on lists go on with the plain ones. What was compiled is
kept in the user's cache folder under a digest of all sources, because numba itself does not notice that a
function called from another file has changed. Where that folder cannot be written it is compiled anew by
every process.
"""

import ast
import functools
import hashlib
import inspect
import os
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast, get_type_hints

import numba
import numpy as np
from numba.core import config

import kvtune_cache
from kvtune_cache.blocks import Bytes, Integers, Links, Longs
from kvtune_cache.signals import Floats

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=tuple[Any, ...])

_ROOM = kvtune_cache.__name__
_POLICY = "policy"
_ELEMENTS: dict[Any, Any] = {
    Floats: np.float64,
    Integers: np.int32,
    Links: np.uint32,
    Longs: np.int64,
    Bytes: np.uint8,
}


def compiled(function: F, *, policy: int | None = None, allocates: bool = False) -> F:
    """Compile a function of kvtune_cache and all that it calls; arguments are arrays, tuples and numbers.

    The first call with arguments of new types compiles (seconds), unless an earlier process has kept it.
    With a `policy` the branches of all others are left out, so that it compiles sooner; it must then be
    called with rules of that policy. What makes lists of its own has to say so by `allocates`; elsewhere the
    counting of references is left out.
    """
    _keep_under(_sources_digest())
    return cast(F, _Compiler(policy, allocates).compiled(function))


def is_kept(function: Callable[..., Any], *, policy: int | None = None, allocates: bool = False) -> bool:
    """Whether an earlier process has kept what `compiled` gives, so that its first call is short."""
    folder = _keep_under(_sources_digest())
    return any(folder.rglob(f"*.{_kept_as(function, policy, allocates, inner=False)}-*.nbi"))


def as_arrays(parts: T) -> T:
    """Copy a named tuple of lists, tuples in it included, into one of numpy arrays.

    The element type is that of the field's annotation: `Floats` float64, `Integers` int32, `Links` uint32,
    `Longs` int64, `Bytes` uint8.
    """
    hints = get_type_hints(type(parts), include_extras=True)
    return type(parts)(*(_array(part, hint) for part, hint in zip(parts, hints.values(), strict=True)))


def _array(part: Any, hint: Any) -> Any:
    if isinstance(part, tuple):
        return as_arrays(part)
    return np.array(part, _ELEMENTS[hint]) if hint in _ELEMENTS else part


@functools.cache
class _Compiler:
    """Compiles copies of functions whose globals are compiled copies, too."""

    def __init__(self, policy: int | None, allocates: bool) -> None:
        self._policy = policy
        self._allocates = allocates
        self._done: dict[tuple[Callable[..., Any], bool], Callable[..., Any]] = {}

    def compiled(self, function: Callable[..., Any], *, inner: bool = False) -> Callable[..., Any]:
        """Inner ones are merged into their callers: a table is many arrays, dear to hand over."""
        if (function, inner) not in self._done:
            copy = self._copy(cast(FunctionType, function), inner)
            options = {
                "nogil": True,
                "cache": True,
                "forceinline": inner,
                "_nrt": self._allocates,
                # What only compiled functions call needs no way in from Python, a third of the work.
                "no_cpython_wrapper": inner,
                "no_cfunc_wrapper": inner,
            }
            self._done[function, inner] = cast(Callable[..., Any], numba.njit(**cast(Any, options))(copy))
        return self._done[function, inner]

    def _copy(self, function: FunctionType, inner: bool) -> FunctionType:
        code = self._code(function)
        scope = dict(function.__globals__)
        for name in _names(code) & scope.keys():
            value = scope[name]
            if isinstance(value, FunctionType) and value.__module__.startswith(_ROOM):
                scope[name] = self.compiled(value, inner=True)
        copy = FunctionType(code, scope, function.__name__, function.__defaults__)
        copy.__module__ = function.__module__
        copy.__qualname__ = _kept_as(function, self._policy, self._allocates, inner=inner)
        return copy

    def _code(self, function: FunctionType) -> CodeType:
        """A function's code, without the branches of other policies."""
        code = function.__code__
        if self._policy is None or _POLICY not in {*code.co_varnames, *code.co_names}:
            return code
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        decided = ast.fix_missing_locations(_Decided(function.__globals__, self._policy).visit(tree))
        ast.increment_lineno(decided, code.co_firstlineno - 1)
        module = compile(decided, code.co_filename, "exec")
        return next(const for const in module.co_consts if isinstance(const, CodeType))


def _kept_as(function: Callable[..., Any], policy: int | None, allocates: bool, *, inner: bool) -> str:
    """The name under which numba keeps a function: one for each way in which it is compiled."""
    return f"{function.__qualname__}-{policy}-{allocates:d}-{inner:d}"


class _Decided(ast.NodeTransformer):
    """Takes the branches of one policy: `if policy == ...` is known."""

    def __init__(self, scope: dict[str, Any], policy: int) -> None:
        self._scope = {**scope, _POLICY: policy}

    def visit_If(self, node: ast.If) -> Any:
        """Replace a branch on the policy by what it comes to."""
        self.generic_visit(node)
        match node.test:
            case ast.Compare(left=ast.Name(id=name) | ast.Attribute(attr=name)) if name == _POLICY:
                node.test.left = ast.Name(_POLICY, ast.Load())
                test = compile(ast.fix_missing_locations(ast.Expression(node.test)), _ROOM, "eval")
                return node.body if eval(test, self._scope) else node.orelse  # our own source
        return node


def _names(code: CodeType) -> set[str]:
    """The names that a function uses, and what is defined in it."""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*map(_names, inner))


@functools.cache
def _sources_digest() -> str:
    """Digest of all that decides what is compiled: our sources, numba, numpy and Python."""
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__} {sys.version}".encode())
    digest.update(Path(__file__).read_bytes())
    for folder in kvtune_cache.__path__:
        for path in sorted(Path(folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def _keep_under(digest: str) -> Path:
    """Tell numba where to keep what it compiles; that folder."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvtune" / "compiled"
    folder = root / digest
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="kvtune-compiled-"))
    cast(Any, config).CACHE_DIR = str(folder)
    return folder
