"""New connections, several at once: a TLS handshake each, or a login by SCRAM each, closed when the broker answered.

Run as a program (`python -m bench.logins tls|scram --port PORT`), so that its CPU time is its own; it prints one JSON
object. The client's key derivation is made once: what is measured is the server's side.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import ssl
import sys
import time
from functools import lru_cache
from random import Random

from tests.interop.secured_kafka import FILES
from tests.interop.servers import API_VERSIONS_V0

from bench.asking import Asking
from bench.security import PASSWORD, USER
from ottla.security import scram
from ottla.security.authentication import Authentication, Credentials
from ottla.wire import Message
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 2


async def tls(port: int) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(FILES / "ca.pem")
    context.check_hostname = False
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    writer.write(len(API_VERSIONS_V0).to_bytes(4, "big") + API_VERSIONS_V0)
    await reader.readexactly(4)
    writer.close()


async def login(port: int) -> None:
    connection = await Asking.connect(port)
    exchange = Authentication(Credentials("SCRAM-SHA-512", USER, PASSWORD), Random())
    request: Message | None = exchange.begin()
    while request is not None:
        if isinstance(request, SaslHandshakeRequest):
            request = exchange.handle(await connection.ask(request, HANDSHAKE_VERSION, SaslHandshakeResponse))
        else:
            assert isinstance(request, SaslAuthenticateRequest)
            request = exchange.handle(await connection.ask(request, AUTHENTICATE_VERSION, SaslAuthenticateResponse))
    connection.close()


class _Hashlib:
    """`hashlib`, but a key that was derived once is not derived again."""

    new = staticmethod(hashlib.new)
    pbkdf2_hmac = staticmethod(lru_cache(hashlib.pbkdf2_hmac))


async def run(kind: str, port: int, count: int, at_once: int) -> dict[str, float]:
    connect = tls if kind == "tls" else login
    left = count
    took: list[float] = []

    async def work() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            began = time.perf_counter()
            await connect(port)
            took.append(time.perf_counter() - began)

    await connect(port)
    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(at_once)))
    seconds = time.perf_counter() - started
    took.sort()
    return {
        "per_s": count / seconds,
        "p50_ms": took[len(took) // 2] * 1000,
        "p99_ms": took[len(took) * 99 // 100] * 1000,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.logins", description=__doc__)
    parser.add_argument("kind", choices=("tls", "scram"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--at-once", type=int, default=20)
    options = parser.parse_args()
    vars(scram)["hashlib"] = _Hashlib
    json.dump(asyncio.run(run(options.kind, options.port, options.count, options.at_once)), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
