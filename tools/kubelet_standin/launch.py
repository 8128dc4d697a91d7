"""Run one container's command in mount and PID namespaces of its own; started as a script for each container.

Reads a JSON file {"mounts", "keep", "read_only_root", "command", "directory", "scratch"}. The process that
the stand-in started stays as parent: it hands SIGTERM on and ends with the command's code, or 128 + the
signal. When it is killed, everything in the PID namespace is killed with it. Needs root, or user namespaces.
Standard library only, and nothing of kvtune, because it starts once for each container.
"""

import ctypes
import json
import os
import signal
import sys

NEWNS, NEWUSER, NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG = 1
CANNOT_RUN = 127

_libc = ctypes.CDLL(None, use_errno=True)


def main(file: str) -> int:
    """Set up the namespaces, run the command, and return its exit code."""
    with open(file, encoding="utf-8") as opened:
        spec = json.load(opened)
    _die_with(signal.SIGKILL)
    _unshare()
    child = os.fork()
    if child == 0:
        _run(spec)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: _hand_on(child, received))
    status = os.waitpid(child, 0)[1]
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _hand_on(child: int, number: int) -> None:
    try:
        os.kill(child, number)
    except ProcessLookupError:
        return


def _run(spec: dict) -> None:  # type: ignore[type-arg]  # JSON
    try:
        _die_with(signal.SIGKILL)
        mounts = spec["mounts"]
        held = {path: os.open(path, os.O_PATH) for path in {m["source"] for m in mounts} | set(spec["keep"])}
        _mount(None, "/", None, MS_REC | MS_PRIVATE)
        _mount("proc", "/proc", "proc", 0)
        _mount("tmpfs", spec["scratch"], "tmpfs", 0)
        scratch = os.open(spec["scratch"], os.O_PATH)
        if spec["read_only_root"]:
            _mount("/", "/", None, MS_BIND | MS_REC)
        _make_places([m["target"] for m in mounts], f"/proc/self/fd/{scratch}")
        for mount in mounts:
            _bind(held[mount["source"]], mount["target"], mount["read_only"])
        hidden = [p for p in spec["keep"] if any(_is_under(p, m["target"]) for m in mounts)]
        for path in hidden:
            os.makedirs(path, exist_ok=True)
            _mount(f"/proc/self/fd/{held[path]}", path, None, MS_BIND | MS_REC)
        if spec["read_only_root"]:
            os.chroot("/")
            _mount(None, "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY)
        for descriptor in (*held.values(), scratch):
            os.close(descriptor)
        os.chdir(spec["directory"])
        os.execvp(spec["command"][0], spec["command"])
    except OSError as error:
        sys.stderr.write(f"stand-in: {spec['command'][0]} cannot be run: {error}\n")
        sys.stderr.flush()
        os._exit(CANNOT_RUN)


def _make_places(targets: list[str], scratch: str) -> None:
    """Make the folders that mounts go to; an overlay keeps new ones away from the machine.

    All at once, for a second overlay of a folder would hide what was mounted in the first. Those inside
    another volume are made when it is there.
    """
    outer = [t for t in targets if not any(t != other and _is_under(t, other) for other in targets)]
    missing = [target for target in outer if not os.path.exists(target)]
    for number, there in enumerate(sorted({_existing(target) for target in missing} - {"/"})):
        upper, work = f"{scratch}/{number}/upper", f"{scratch}/{number}/work"
        os.makedirs(upper)
        os.makedirs(work)
        _mount("overlay", there, "overlay", 0, f"lowerdir={there},upperdir={upper},workdir={work}")
    for target in missing:
        os.makedirs(target, exist_ok=True)


def _existing(target: str) -> str:
    """The nearest folder above a path that exists."""
    there = target
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    return os.path.realpath(there)


def _bind(source: int, target: str, read_only: bool) -> None:
    if os.path.isdir(f"/proc/self/fd/{source}"):
        os.makedirs(target, exist_ok=True)
    _mount(f"/proc/self/fd/{source}", target, None, MS_BIND | MS_REC)
    if read_only:
        _mount(None, target, None, MS_REMOUNT | MS_BIND | MS_RDONLY)


def _is_under(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _unshare() -> None:
    if os.geteuid() == 0:
        _checked(_libc.unshare(NEWNS | NEWPID), "unshare")
        return
    user, group = os.geteuid(), os.getegid()
    _checked(_libc.unshare(NEWUSER | NEWNS | NEWPID), "user namespaces (or be root)")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    data = None if options is None else os.fsencode(options)
    _checked(_libc.mount(*texts, ctypes.c_ulong(flags), data), f"mount at {target}")


def _die_with(number: int) -> None:
    """Get this signal when the parent dies."""
    _checked(_libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0), "prctl")


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
