"""A socket that a command serves on."""

from __future__ import annotations

import socket

from evolvent.core.errors import BadInput


def listen(host: str, port: int) -> tuple[socket.socket, str]:
    """A socket, and what stands for it in an address.

    Raises:
        BadInput: it cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        do = "take another --port, or 0 for any that is free"
        raise BadInput("nothing can be served here", got=error.strerror, where=f"{host}:{port}", do=do) from error
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # each answer would wait 40 ms for an ACK
    return listening, f"{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
