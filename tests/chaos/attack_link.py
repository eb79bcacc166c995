"""The attacker's side of a connection: any bytes, with or without TLS, and logins by PLAIN or SCRAM."""

from __future__ import annotations

import asyncio
import ssl
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Self

from ottla.security.scram import Scram
from ottla.wire import Message, decoder, frames
from ottla.wire.apis import APIS, response_class
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

ANSWER_S = 60.0
"""An answer that takes longer is a finding, however busy the machine is."""
HANDSHAKE_KEY, AUTHENTICATE_KEY = 17, 36
HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 2
INTERNAL_STEP, CONTROLLER_STEP = 2_000, 1_000
"""From the port of clients to those of `ottla cluster start --secure` for brokers and for controllers."""


class Broken(Exception):
    """The attack reached something that it must not reach."""


class Closed(Exception):
    """The node closed the connection."""


@dataclass(slots=True)
class Target:
    """The cluster under attack, and what the attacker knows of it."""

    ports: list[int]
    ca: Path
    users: dict[str, str]
    """User -> password, of SCRAM-SHA-512 and of PLAIN."""
    admin_password: str
    key: Any
    """A `tests.signed_tokens.SigningKey`, which signs OAUTHBEARER tokens: the attacker uses what is public of it, and
    tokens that were given out."""
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    stolen: dict[str, Any] = field(default_factory=dict)
    """What another user's client got: a fetch session, a producer id, a delegation token."""
    rng: Random = field(default_factory=lambda: Random(16))

    def port(self) -> int:
        return self.rng.choice(self.ports)

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.ca)
        return context


class Link:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._id = 0

    @classmethod
    async def open(cls, target: Target, port: int | None = None, *, is_tls: bool = True) -> Self:
        context = target.context() if is_tls else None
        try:
            async with asyncio.timeout(ANSWER_S):
                streams = await asyncio.open_connection(
                    "127.0.0.1", port or target.port(), ssl=context, server_hostname="127.0.0.1" if is_tls else None
                )
        except TimeoutError:
            raise Broken(f"no connection within {ANSWER_S:.0f} s") from None
        except ssl.SSLCertVerificationError:
            raise
        except OSError as error:
            raise Closed(str(error)) from error
        return cls(*streams)

    @classmethod
    async def as_user(cls, target: Target, user: str, port: int | None = None) -> Self:
        link = await cls.open(target, port)
        if not await link.log_in_plain(user, target.users[user]):
            raise Broken(f"{user} cannot log in")
        return link

    @classmethod
    async def as_admin(cls, target: Target, port: int | None = None) -> Self:
        link = await cls.open(target, port)
        if not await link.log_in_scram("admin", target.admin_password, target.rng):
            raise Broken("admin cannot log in")
        return link

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with suppress(Exception):
            self._writer.transport.abort()

    async def write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            async with asyncio.timeout(ANSWER_S):
                await self._writer.drain()
        except (OSError, ssl.SSLError) as error:
            raise Closed(str(error)) from error

    async def frame(self, within_s: float = ANSWER_S) -> bytes:
        """The next frame without its size."""
        try:
            async with asyncio.timeout(within_s):
                size = int.from_bytes(await self._reader.readexactly(4), "big")
                return await self._reader.readexactly(size)
        except TimeoutError:
            raise Broken(f"neither an answer nor the end of the connection within {within_s:.0f} s") from None
        except (OSError, EOFError, ssl.SSLError) as error:
            raise Closed(str(error)) from error

    async def read(self, within_s: float = ANSWER_S) -> bytes:
        """Whatever comes; nothing at the end of the connection."""
        try:
            async with asyncio.timeout(within_s):
                return await self._reader.read(65_536)
        except TimeoutError:
            raise Broken(f"neither an answer nor the end of the connection within {within_s:.0f} s") from None
        except (OSError, ssl.SSLError):
            return b""

    async def ask(self, key: int, version: int, request: Message, within_s: float = ANSWER_S) -> Any:
        self._id += 1
        parts = frames.encode_request(key, version, self._id, "attacker", request)
        await self.write(b"".join(map(bytes, parts)))
        answer = memoryview(await self.frame(within_s))
        correlation_id, position = frames.decode_response_header(answer, key, version)
        if correlation_id != self._id:
            raise Broken(f"the answer to request {self._id} has the id {correlation_id}")
        return decoder(response_class(key), version)(answer, position)[0]

    async def send_raw(self, key: int, version: int, body: bytes) -> None:
        """Send these bytes behind a valid header. The node may answer or close the connection; silence is a finding."""
        tags = b"\0" if APIS[key].is_flexible(version) else b""
        frame = struct.pack(">hhih", key, version, 1, -1) + tags + body
        with suppress(Closed):
            await self.write(struct.pack(">i", len(frame)) + frame)
            await self.frame()

    async def handshake(self, mechanism: str) -> SaslHandshakeResponse:
        answer = await self.ask(HANDSHAKE_KEY, HANDSHAKE_VERSION, SaslHandshakeRequest(mechanism=mechanism))
        assert isinstance(answer, SaslHandshakeResponse)
        return answer

    async def token(self, token: bytes) -> SaslAuthenticateResponse:
        answer = await self.ask(AUTHENTICATE_KEY, AUTHENTICATE_VERSION, SaslAuthenticateRequest(auth_bytes=token))
        assert isinstance(answer, SaslAuthenticateResponse)
        return answer

    async def log_in_plain(self, user: str, password: str) -> bool:
        await self.handshake("PLAIN")
        answer = await self.token(b"\0" + user.encode() + b"\0" + password.encode())
        return answer.error_code == ErrorCode.NONE

    async def log_in_scram(self, user: str, password: str, rng: Random) -> bool:
        scram = Scram("SCRAM-SHA-512", user, password, rng)
        await self.handshake("SCRAM-SHA-512")
        answer = await self.token(scram.initial())
        if answer.error_code:
            return False
        proof = scram.respond(bytes(answer.auth_bytes))
        assert proof is not None
        return (await self.token(proof)).error_code == ErrorCode.NONE
