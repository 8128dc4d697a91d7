"""Tell of which requests and which policies the rows of a result file are."""

import hashlib
from pathlib import Path

import numpy as np

import kvtune_cache
from kvtune_cache.requests import Requests
from kvtune_lab.sweep.results import Origin


def origin_of(requests: Requests) -> Origin:
    """Digest the requests as they were read, whatever their file's form, and the code that serves them."""
    return Origin(trace=_requests_digest(requests), policies=policies_digest())


def _requests_digest(requests: Requests) -> str:
    digest = hashlib.sha256()
    for part, kind in zip(requests, ("<i8", "<i4", "<i4", "<f8", "<i4", "<i4", "<f8"), strict=True):
        digest.update(np.ascontiguousarray(part, kind).data)
    return digest.hexdigest()[:16]


def policies_digest() -> str:
    """Digest the code of kvtune_cache, as a short text."""
    digest = hashlib.sha256()
    for folder in kvtune_cache.__path__:
        for path in sorted(Path(folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
