"""Ports for servers that a test kills and restarts at the same address."""

import contextlib
import random
import socket

_CHOICE = random.SystemRandom()
_RESERVED: list[socket.socket] = []
"""One socket for each port that this process has taken; they close when it exits."""


def free_port() -> int:
    """Returns a port below those of outgoing connections, which no other test process uses."""
    while True:
        port = _CHOICE.randint(20_000, 32_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            reservation = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            reservation.bind(f"\0windlass-test-port-{port}")
            socket.create_server(("127.0.0.1", port)).close()
            stack.pop_all()
            _RESERVED.append(reservation)
            return port
