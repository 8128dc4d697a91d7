"""Give every pod an address of its own in 127.0.0.0/16, which is loopback without any set-up.

An address is held by an abstract socket of its name, so several stand-ins on one machine never give out the
same one, and the death of a stand-in gives its addresses back.
"""

import random
import socket
from types import TracebackType

TAKEN_AT_MOST = 2000


class PodAddress:
    """One address, held until closed."""

    def __init__(self, address: str, holder: socket.socket) -> None:
        self.address = address
        self._holder = holder

    def __enter__(self) -> str:
        return self.address

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give it back."""
        self._holder.close()


def free_address(seed: int) -> PodAddress:
    """An address 127.0.x.y that no other pod of this machine has; raise OSError when there is none."""
    numbers = random.Random(seed)
    for _ in range(TAKEN_AT_MOST):
        address = f"127.0.{numbers.randrange(1, 255)}.{numbers.randrange(1, 255)}"
        holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            holder.bind(f"\0kvtune-pod-{address}")
        except OSError:
            holder.close()
            continue
        return PodAddress(address, holder)
    raise OSError("127.0.0.0/16: no address is free")
