"""Connections to another node over TLS, on a simulated network: what is answered, and what a look at it shows."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from ottla.broker.peers.peers import Peers
from ottla.broker.peers.suspicions import Look
from ottla.net import Channel, NoAnswer, Peer, ReceiveBuffers
from ottla.net.tls_contexts import client_context
from ottla.wire import frames
from ottla.wire.apis import APIS
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tests.sim.test_tls_listener import World, settings

VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version) for api in APIS.values()
    ]
)


class Node:
    """Answers every request as if it were ApiVersions."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def frame_received(self, frame: memoryview) -> None:
        header, _ = frames.decode_request_header(frame)
        self.channel.send(frames.encode_response(header.api_key, header.api_version, header.correlation_id, VERSIONS))

    def channel_closed(self) -> None: ...


class Security:
    def __init__(self, store: str | None = "client", trust: str = "ca") -> None:
        self._context = client_context(settings(store, trust))
        self.failures: list[Exception] = []

    def context(self) -> ssl.SSLContext:
        return self._context

    def authentication(self, host: str) -> None:
        return None

    def failed(self, address: str, error: Exception) -> None:
        self.failures.append(error)

    def opened(self, address: str) -> None: ...


def ask(
    security: Security, *, client_auth: str = "none", name: str = "broker.test", port: int = 9093, has_tls: bool = True
) -> tuple[Any, Look]:
    """What a request to the node is answered, and what a look at it shows."""
    world = World(client_auth)
    world.listener._accept = lambda channel, host, port, tls: Node(channel)
    if not has_tls:
        world.listener.tls = None

    async def work() -> tuple[Any, Look]:
        sockets, buffers = world.network.host("client"), ReceiveBuffers()
        peer = Peer(world.loop, sockets, buffers, "server", port, client_id="1", name=name, security=security)
        answered: asyncio.Future[Any] = world.loop.create_future()
        peer.send(ApiVersionsRequest(), answered.set_result, timeout_ms=5_000)
        answer = await answered
        others = Peers(world.loop, sockets, buffers, client_id="1", to_brokers=security)  # type: ignore[arg-type]
        others._new_peer = lambda host, port, _, security: Peer(  # type: ignore[method-assign, assignment]
            world.loop, sockets, buffers, host, port, client_id="1", name=name, security=security
        )
        look = await others.look_at("server", port, 5_000)
        peer.close()
        others.close()
        return answer, look

    found: tuple[Any, Look] = world.loop.run(work(), within_s=600)
    world.listener.close()
    return found


def test_a_node_is_asked_over_tls_by_the_name_in_its_certificate() -> None:
    security = Security()
    answer, look = ask(security, client_auth="required")
    assert isinstance(answer, ApiVersionsResponse) and look is Look.ANSWERED
    assert not security.failures


@pytest.mark.parametrize(
    ("security", "options"),
    [
        (Security(trust="client-of-another"), {}),
        (Security(), {"name": "elsewhere.test"}),
        (Security(store="client-of-another"), {"client_auth": "required"}),
        (Security(store=None), {"client_auth": "required"}),
        (Security(store="client-expired"), {"client_auth": "required"}),
    ],
    ids=["other ca", "other name", "client of another ca", "no client certificate", "expired client certificate"],
)
def test_a_node_that_disagrees_on_certificates_is_there(security: Security, options: dict[str, Any]) -> None:
    answer, look = ask(security, **options)
    assert isinstance(answer, NoAnswer) and answer.is_there
    assert look is Look.ANSWERED, "only a node that takes no connections is gone"
    assert security.failures


def test_a_node_that_takes_no_connections_is_gone() -> None:
    security = Security()
    answer, look = ask(security, port=9999)
    assert answer == NoAnswer(is_closed=True) and look is Look.REFUSED
    assert not security.failures, "that is no failure of TLS"


def test_a_node_without_tls_does_not_answer() -> None:
    answer, look = ask(Security(), has_tls=False)
    assert isinstance(answer, NoAnswer) and look is not Look.ANSWERED
