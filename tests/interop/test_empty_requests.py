"""CVE-2026-83525: requests of every API and version with empty arrays, to a broker's and to a controller's listener.

Each is answered, refused or ends its connection; the node goes on, and none of them is a bug in its log."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.wire import Message, WireError, schema
from ottla.wire.apis import APIS, request_class
from ottla.wire.frames import encode_request
from tests.interop.servers import Ottla, free_port

ANSWER_S = 0.2
"""Some requests have no answer."""
ENDING = (80, 81)
"""AddRaftVoter and RemoveRaftVoter would wait for a voter that is not there."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ottla, int]]:
    controller = free_port()
    server = Ottla(tmp_path_factory.mktemp("empty") / "data")
    server.overrides = [
        f"listeners=PLAINTEXT://127.0.0.1:{server.port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names=CONTROLLER",
        "node.id=1",
        "process.roles=broker,controller",
    ]
    server.start()
    yield server, controller
    server.kill()


def empty_requests(api_key: int) -> Iterator[bytes]:
    """Every version: without an element in any array, and with one in the outer ones whose own arrays are empty."""
    cls = request_class(api_key)
    outer: dict[str, Any] = {
        field.name: [field.struct()] for field in schema(cls).fields if field.is_array and field.struct is not None
    }
    messages: list[Message] = [cls(), cls(**outer)] if outer else [cls()]
    for version in range(APIS[api_key].min_version, APIS[api_key].max_version + 1):
        for message in messages:
            with contextlib.suppress(WireError):
                yield b"".join(map(bytes, encode_request(api_key, version, 1, "empty", message)))


@pytest.mark.parametrize("role", ["broker", "controller"])
def test_cve_2026_83525_empty_arrays_end_no_node(node: tuple[Ottla, int], role: str) -> None:
    server, controller = node
    port = server.port if role == "broker" else controller
    sent = 0
    for api_key in sorted(APIS):
        for frame in empty_requests(api_key) if api_key not in ENDING else ():
            sent += 1
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), timeout=30) as connection,
            ):
                connection.sendall(frame)
                connection.settimeout(ANSWER_S)
                connection.recv(65536)
    assert sent > 300
    assert server.is_running(), server.output()
    assert server.answers()
    text = Path(server.log).read_text(errors="replace")
    assert "Traceback" not in text, text[text.index("Traceback") :][:3000]
