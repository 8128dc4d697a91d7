"""The kernels compile for a GPU also where none is, and copies move 16 bytes at once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Loads and stores of every kernel, by its name and the architecture."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path_factory.mktemp("triton"))
    done = subprocess.run(
        [sys.executable, "-m", "tests.agent.kernels.lowering"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_every_kernel_compiles_for_ampere_and_for_hopper(lowered: dict[str, list[str]]) -> None:
    assert len(lowered) == 16
    assert all(instructions for instructions in lowered.values())


@pytest.mark.parametrize("name", ["gather sm_80", "gather sm_90", "scatter sm_80", "scatter sm_90"])
def test_blocks_are_moved_in_pieces_of_16_bytes(lowered: dict[str, list[str]], name: str) -> None:
    moves = [instruction for instruction in lowered[name] if "b64" in instruction]

    assert moves == ["ld.global.v2.b64", "st.global.v2.b64"]
