"""What the operator's process sees to before it runs."""

import subprocess
import sys

PROGRAM = """
import resource
hard = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1] % 2**63, 4096)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
from kvtune_operator.process import allow_many_files
assert allow_many_files() == hard, hard
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
assert allow_many_files() == hard
"""


def test_the_limit_on_open_files_is_raised_as_far_as_it_may_be() -> None:
    """In a process of its own, for a limit that was lowered cannot be raised again."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
