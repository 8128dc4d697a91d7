"""Read a policy file that a user named, and name the file in whatever is wrong with it."""

from pathlib import Path
from typing import TYPE_CHECKING

from kvtune_api.errors import SpecError, Unavailable

if TYPE_CHECKING:
    from kvtune_api.policy import KVCachePolicy


class InvalidPolicy(SpecError):
    """Say that a policy file is wrong: its problems, and which file it is."""

    def __init__(self, file: Path, error: SpecError) -> None:
        super().__init__(*error.problems)
        self.file = file


def policy_of(file: Path) -> "KVCachePolicy":
    """The policy of a file; raise `Unavailable` when it cannot be read, else `InvalidPolicy`."""
    from kvtune_operator.documents import read_policy

    try:
        return read_policy(file)
    except SpecError as error:
        if isinstance(error.__cause__, OSError):
            raise Unavailable(str(error)) from error
        raise InvalidPolicy(file, error) from error
