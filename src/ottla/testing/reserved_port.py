"""A port that stays a node's own while the node is down."""

from __future__ import annotations

import socket


class ReservedPort:
    """A free port of 127.0.0.1, held by a socket that never listens: it is not given away, connections are refused,
    and the node, which shares ports (`FaultySockets`), listens on it as often as it is started."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        self._socket.close()
