"""HTTP in front of the registry (aiohttp, `pip install 'ottla[registry]'`): reads are answered here,
writes by the leader.

A write is answered after its records were read back from the topic; a follower forwards it and waits until it has read
it itself, so a client reads what it wrote wherever it asks.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ottla.client import KafkaError
from ottla.registry import audit, faults
from ottla.registry.access import credentials_of, needs_of
from ottla.registry.beside import Beside
from ottla.registry.election import Election
from ottla.registry.faults import Fault
from ottla.registry.http_connections import KEPT_FOR_S, Answer, HttpConnections
from ottla.registry.logins import REALM, Acls, Logins, User, cluster_login
from ottla.registry.media_types import MEDIA_TYPE, answer_type, is_body_type
from ottla.registry.rest import Request, Rest, is_plain
from ottla.registry.state import DEFAULT_LEVEL, State
from ottla.registry.topic import PAUSE_S, ClientSettings, SchemaTopic
from ottla.registry.writes import Writes

try:
    import aiohttp
    from aiohttp import web
    from yarl import URL
except ModuleNotFoundError as missing:
    raise ImportError("the registry needs aiohttp: pip install 'ottla[registry]'") from missing

FORWARDED = "X-Forward"
MAX_BODY_BYTES = 4 * 1024 * 1024
_log = logging.getLogger("ottla.registry")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryConfig:
    host: str = "127.0.0.1"
    port: int = 8081
    advertised_host: str | None = None
    topic: str = "_schemas"
    group_id: str = "schema-registry"
    level: str = DEFAULT_LEVEL
    timeout_ms: int = 30_000
    login_settings: Mapping[str, Any] | None = field(default=None, repr=False)
    """Settings of the connections over which callers log in; None: without login."""
    tls: ssl.SSLContext | None = None
    peer_tls: ssl.SSLContext | None = None
    """Of connections to other instances."""


class RegistryServer:
    """One instance of the registry."""

    def __init__(self, config: RegistryConfig, settings: ClientSettings) -> None:
        self._config = config
        self._settings = settings
        self.state = State(config.level)
        self._rest = Rest(self.state, is_timed=True)
        self._beside = Beside(config.timeout_ms / 1000)
        self._topic = SchemaTopic(settings, self.state, config.topic, config.timeout_ms)
        self._election: Election | None = None
        self._runner: web.ServerRunner | None = None
        self._http: aiohttp.ClientSession | None = None
        self._writes = Writes(self.state, self._rest, self._topic)
        self._logins: Logins | None = None
        self._acls = Acls(settings.admin)
        if config.login_settings is not None:
            self._logins = Logins(cluster_login(config.login_settings))
        self.port = config.port

    @property
    def url(self) -> str:
        host = self._config.advertised_host or self._config.host
        scheme = "http" if self._config.tls is None else "https"
        return f"{scheme}://[{host}]:{self.port}" if ":" in host else f"{scheme}://{host}:{self.port}"

    async def start(self) -> None:
        """Read the topic, listen, and take part in the election."""
        await self._topic.open()
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(self._config.timeout_ms / 1000))
        self._runner = web.ServerRunner(self.connections())
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._config.host, self._config.port, ssl_context=self._config.tls)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self._election = Election(self._settings.consumer, self._topic, self._config.group_id, self.url)
        self._election.start()

    def connections(self) -> HttpConnections:
        """Answers requests. What a user may read is decided for each request, so only a registry without logins answers
        equal requests equally."""
        return HttpConnections(
            self._handle,
            state=(lambda: self.state.change_count) if self._logins is None else None,
            access_log=None,
            keepalive_timeout=KEPT_FOR_S,
        )

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        await self._writes.stop()
        self._beside.stop()
        if self._election is not None:
            await self._election.stop()
        if self._http is not None:
            await self._http.close()
        await self._acls.close()
        await self._topic.close()

    # Requests

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        answer = await self._answer(request)
        answer.headers["Content-Type"] = answer_type(request.headers.getall("Accept", []))
        return answer

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        user: User | None = None
        try:
            user = await self._user(request)
            content = await _content(request)
            if content and not is_body_type(request.headers.get("Content-Type")):
                raise faults.Fault(415, 415, f"HTTP 415 Unsupported Media Type: Content-Type is not {MEDIA_TYPE}")
            query = {name: request.query.getall(name) for name in request.query}
            asked = Request(request.method, request.rel_url.raw_path, query, _document(content))
            if user is not None:
                caller = await self._acls.caller(user, request.remote or "", asyncio.get_running_loop().time())
                caller.check(needs_of(self.state, asked))
                asked = asked._replace(sees=caller.sees)
            if self._rest.is_write(asked):
                made = await self._write(request, asked, content)
                if user is not None:
                    _record("changed", user.name, request, "" if made.status < 300 else str(made.status))
                return made
            of_state = self.state.change_count
            answer = _answered(await self._beside.answer(partial(self._read, asked)))
            answer.of_state = of_state
            return answer
        except Fault as fault:
            _record_refusal(request, user, fault)
            answer = _json({"error_code": fault.code, "message": fault.message}, fault.status)
            if fault.status == 401:
                answer.headers["WWW-Authenticate"] = REALM
            return answer
        except (KafkaError, TimeoutError) as error:
            _log.warning("%s %s: %s", request.method, request.rel_url.raw_path, error)
            return _json({"error_code": 50001, "message": f"Error in the backend data store: {error}"}, 500)

    async def _read(self, asked: Request) -> Any:
        return self._rest.answer(asked).reply

    async def _user(self, request: web.BaseRequest) -> User | None:
        """The user that a request comes from; None if the registry has no logins. Nothing else of the request is looked
        at before."""
        if self._logins is None:
            return None
        now = asyncio.get_running_loop().time()
        return await self._logins.user_of(request.headers.getall("Authorization", []), request.remote or "", now)

    async def _write(self, request: web.BaseRequest, asked: Request, content: bytes) -> web.StreamResponse:
        """Answer a write, here or by the leader. While the group chooses a leader the request waits."""
        assert self._election is not None
        loop = asyncio.get_running_loop()
        expires_at = loop.time() + self._config.timeout_ms / 1000
        while True:
            if self._election.is_leader:
                return _answered(await self._beside.answer(partial(self._writes.answer, asked, self._election)))
            if FORWARDED not in request.headers:
                answer = await self._forward(request, self._election.leader_url, content)
                if answer is not None:
                    return answer
            if FORWARDED in request.headers or loop.time() > expires_at:
                raise faults.unknown_leader("the request failed since leader is unknown")
            await asyncio.sleep(PAUSE_S)

    async def _forward(self, request: web.BaseRequest, leader: str | None, content: bytes) -> web.Response | None:
        """The leader's answer; None if that instance does not answer, or does not lead."""
        if leader is None or leader == self.url:
            return None
        if not may_forward(leader, self.url):
            raise faults.forwarding_failed(
                f"the group {self._config.group_id} names {leader[:100]!r} as the leader, which is no address of a "
                "registry with https as this one: writes, and the passwords in them, are not sent there"
            )
        assert self._http is not None
        headers = {FORWARDED: "true", "Content-Type": MEDIA_TYPE, "Accept": MEDIA_TYPE}
        if "Authorization" in request.headers:
            headers["Authorization"] = request.headers["Authorization"]
        url = URL(leader + request.rel_url.raw_path_qs, encoded=True)
        try:
            async with self._http.request(
                request.method,
                url,
                data=content,
                headers=headers,
                allow_redirects=False,
                ssl=self._config.peer_tls or True,
            ) as response:
                body, status = await response.read(), response.status
        except aiohttp.ClientConnectorError:
            return None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise faults.forwarding_failed(f"the leader {leader} does not answer: {type(error).__name__}") from None
        if status == 500 and b'"error_code":50004' in body:
            return None
        if status < 300:
            await self._topic.read_to_end()
        return web.Response(body=body, status=status, headers={"Content-Type": MEDIA_TYPE})


def _record(kind: str, name: str, request: web.BaseRequest, reason: str) -> None:
    audit.record(kind, name, request.remote or "", request.method, request.rel_url.raw_path, reason=reason)


def _record_refusal(request: web.BaseRequest, user: User | None, fault: Fault) -> None:
    """Events for failed logins and denied operations. A request without credentials is no event."""
    if fault.status == 401:
        given = credentials_of(request.headers.getall("Authorization", []))
        if given is not None:
            _record("login", given.user, request, "LOGIN_FAILED")
    elif fault.status == 403 and user is not None:
        _record("denied", user.name, request, str(fault.code))
    elif user is not None and request.method != "GET" and fault.status != 404:
        _record("changed", user.name, request, str(fault.code))


def may_forward(leader: str, own: str) -> bool:
    """Whether writes may go to this address. The leader's comes from an offset that every principal with READ on the
    group can commit: over https its certificate is checked, over anything else passwords could be had by one."""
    return leader.startswith("https://") or (own.startswith("http://") and leader.startswith("http://"))


async def _content(request: web.BaseRequest) -> bytes:
    """The body, up to the limit."""
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise faults.Fault(413, 413, f"the body has more than {MAX_BODY_BYTES} bytes")
    found = bytearray()
    async for chunk in request.content.iter_chunked(64 * 1024):
        found += chunk
        if len(found) > MAX_BODY_BYTES:
            raise faults.Fault(413, 413, f"the body has more than {MAX_BODY_BYTES} bytes")
    return bytes(found)


def _document(content: bytes) -> Any:
    if not content:
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise faults.Fault(400, 400, "the body is not valid JSON") from None


def _answered(answer: Any) -> Answer:
    if answer is None:
        return Answer(status=204)
    if is_plain(answer):
        return Answer(text=str(answer), headers={"Content-Type": MEDIA_TYPE})
    return _json(answer, 200)


def _json(answer: Any, status: int) -> Answer:
    body = json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode()
    return Answer(body=body, status=status, headers={"Content-Type": MEDIA_TYPE})
