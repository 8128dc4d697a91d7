"""Run the kernels on a GPU if there is one, else in Triton's interpreter; without torch say that none ran."""

import os
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("torch"):
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = (
            "1"  # read when a kernel is defined, so before its module is imported
        )
    torch.set_num_threads(1)  # the workers of a test run share the cores


class WithoutTorch(pytest.Module):
    """A module of tests that is not imported."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Skip all of it, with the reason."""
        pytest.skip("torch is not installed: `make kernels` installs it (5 GB)", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Import modules of tests only where torch is."""
    if find_spec("torch"):
        return None
    made: pytest.Module = WithoutTorch.from_parent(parent, path=module_path)
    return made
