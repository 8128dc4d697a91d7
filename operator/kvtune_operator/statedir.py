"""The state directory of a standalone control plane: what lies where, who holds it, what users ask of it.

lock                    held (flock) by the one control plane, says who that is
fence.json              the newest fencing token, written before it is used
policies/NAME.json      policy with its status
experiments/NAME.json   one experiment with its ledger
events.jsonl            what users should know
inbox/                  commands of users, one file each; unreadable ones move to inbox/bad
"""

import fcntl
import json
import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

from kvtune_api.codec import frozen
from kvtune_api.errors import KvtuneError
from kvtune_api.experiment import KVCacheExperiment
from kvtune_api.knobs import CacheConfig
from kvtune_api.policy import KVCachePolicy
from kvtune_operator.storage import clean, parsed, read, unavailable, write, write_text
from kvtune_tuner.model import Verb


class Locked(KvtuneError):
    """Say that another control plane holds the state directory."""


@frozen
class Wish:
    """The content of one file in the inbox."""

    verb: Verb
    target: str = ""
    """Name of an experiment; empty for the one that runs."""

    policy: str | None = None
    """Name of the policy it is for; None for whichever runs here."""

    config: CacheConfig | None = None
    """What to try (verb try)."""


@frozen
class Fence:
    """The newest fencing token of this state directory."""

    token: int


@frozen
class Serving:
    """Which policy of the directory its control plane serves: one, though more may have been served."""

    policy: str


@dataclass(frozen=True, slots=True)
class StateDir:
    """Paths of one state directory."""

    path: Path

    @property
    def policies(self) -> Path:
        """Folder of policies."""
        return self.path / "policies"

    @property
    def experiments(self) -> Path:
        """Folder of experiments."""
        return self.path / "experiments"

    @property
    def inbox(self) -> Path:
        """Folder of commands."""
        return self.path / "inbox"

    @property
    def bad(self) -> Path:
        """Folder of commands that could not be read."""
        return self.inbox / "bad"

    @property
    def events(self) -> Path:
        """File of events."""
        return self.path / "events.jsonl"

    @property
    def fence(self) -> Path:
        """File of the fencing token."""
        return self.path / "fence.json"

    @property
    def serving(self) -> Path:
        """File of the policy that is served."""
        return self.path / "serving.json"

    @property
    def lock_file(self) -> Path:
        """File that the control plane holds locked."""
        return self.path / "lock"

    def create(self) -> None:
        """Make the folders; raise `Unavailable` with the path when that fails."""
        for folder in (self.path, self.policies, self.experiments, self.inbox, self.bad):
            try:
                folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            except OSError as error:
                raise unavailable(folder, error) from error

    def clean(self) -> None:
        """Remove temporary files of killed writers (call it only while holding the lock)."""
        for folder in (self.path, self.policies, self.experiments):
            clean(folder)

    def policy_file(self, name: str) -> Path:
        """File of a policy."""
        return self.policies / f"{name}.json"

    def experiment_file(self, name: str) -> Path:
        """File of an experiment."""
        return self.experiments / f"{name}.json"


class StateLock:
    """The exclusive hold on a state directory, until `release` or the process's end."""

    def __init__(self, state: StateDir) -> None:
        """Take the lock; raise `Locked` naming the holder, or `Unavailable`."""
        path = state.lock_file
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise unavailable(path, error) from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._sign()
        except BlockingIOError as error:
            os.close(self._handle)
            raise Locked(
                f"{state.path}: another control plane holds this directory ({_signed(path)})"
            ) from error
        except OSError as error:
            os.close(self._handle)
            raise unavailable(path, error) from error

    def release(self) -> None:
        """Give the directory free."""
        os.close(self._handle)

    def _sign(self) -> None:
        text = json.dumps({"pid": os.getpid(), "host": socket.gethostname()}) + "\n"
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, text.encode(), 0)
        os.fsync(self._handle)


def holder(state: StateDir) -> str | None:
    """Who holds the directory (`pid 12 on host`); None when nobody does."""
    try:
        handle = os.open(state.lock_file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unavailable(state.lock_file, error) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _signed(state.lock_file)
    finally:
        os.close(handle)
    return None


def leave(state: StateDir, wish: Wish, *, unix_milliseconds: int) -> Path:
    """Leave a command for the control plane, atomically; return its file."""
    path = state.inbox / f"{unix_milliseconds:015d}-{secrets.token_hex(4)}.json"
    write(path, wish)
    return path


def policies(state: StateDir) -> tuple[KVCachePolicy, ...]:
    """Every policy of the directory, by name. Reads without the lock: files are replaced whole."""
    read_all = (read(KVCachePolicy, path) for path in _json_files(state.policies))
    return tuple(policy for policy in read_all if policy is not None)


def left_policies(state: StateDir) -> dict[str, float]:
    """Policies that the control plane of the directory does not serve, and the Unix seconds of their last
    state; none where no control plane runs."""
    serving = read(Serving, state.serving) if holder(state) is not None else None
    if serving is None:
        return {}
    files = {path.stem: path for path in _json_files(state.policies) if path.stem != serving.policy}
    return {name: path.stat().st_mtime for name, path in files.items()}


def experiments(state: StateDir) -> tuple[KVCacheExperiment, ...]:
    """Every experiment of the directory, oldest first."""
    read_all = (read(KVCacheExperiment, path) for path in _json_files(state.experiments))
    found = [experiment for experiment in read_all if experiment is not None]
    return tuple(sorted(found, key=lambda item: (item.spec.policy, item.spec.number)))


def previous_token(state: StateDir) -> int:
    """The newest token that this directory knows; 0 when there is none."""
    fence = read(Fence, state.fence)
    return fence.token if fence else 0


def keep_token(state: StateDir, token: int) -> None:
    """Store a token; it may be used only after this returns."""
    write(state.fence, Fence(token=token))


def refuse_command(state: StateDir, path: Path, why: str) -> None:
    """Move an unreadable command aside, with the reason beside it."""
    try:
        path.replace(state.bad / path.name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise unavailable(path, error) from error
    write_text(state.bad / f"{path.name}.reason", why + "\n")


def parse_wish(text: str, where: str) -> Wish:
    """Read a command; raise `Corrupt`."""
    return parsed(Wish, text, where)


def _json_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".json" and path.name[0] != ".")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unavailable(folder, error) from error


def _signed(path: Path) -> str:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return f"pid {content['pid']} on {content['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "it has not said who it is"
