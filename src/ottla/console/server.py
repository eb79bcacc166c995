"""HTTP in front of the console (aiohttp, `pip install 'ottla[console]'`): the page, JSON, the WebSocket and MCP.

What a browser must not do for another site is refused here: a Host that is not this machine's (DNS rebinding), a
request from another origin, a change without the session's CSRF token.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import secrets
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakValueDictionary

from ottla import __version__
from ottla.client.errors import AuthenticationError, KafkaError
from ottla.console import mcp
from ottla.console.call import Call, Download
from ottla.console.connection import Connection
from ottla.console.console import Console, ConsoleConfig
from ottla.console.faults import Fault, invalid, of_kafka
from ottla.console.features import features
from ottla.console.live import Live
from ottla.console.logins import MECHANISMS, credentials_of, principal_of
from ottla.console.oidc import (
    CALLBACK,
    TOKEN_PROVIDER,
    Attempt,
    Grant,
    Issuer,
    Tokens,
    authorization_url,
    credentials_with,
    parse_answer,
)
from ottla.console.page_files import PageFiles
from ottla.console.routes import ROUTES
from ottla.console.sessions import LoginDelays, Session, Sessions
from ottla.registry.http_connections import KEPT_FOR_S, HttpConnections

try:
    from aiohttp import WSCloseCode, WSMsgType, web
except ModuleNotFoundError as missing:
    raise ImportError("the console needs aiohttp: pip install 'ottla[console]'") from missing

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_LOGIN_BYTES, LOGIN_BODY_S = 16 * 1024, 10.0
MAX_FRAME_BYTES = 256 * 1024
COMPRESSED_BYTES = 1_024
HELLO_S = 10.0
HEARTBEAT_S = 30.0
TIDY_S = 60.0
LOOK_S = 5.0
"""How often the logins of open live views are looked at."""
BEARER_S = 60.0
"""How long an assistant's token counts as checked."""
MAX_BEARERS = 1_000
CSRF_HEADER = "X-Ottla-Csrf"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_log = logging.getLogger("ottla.console")


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1", "[::1]") or host.startswith("127.")


class ConsoleServer:
    def __init__(self, config: ConsoleConfig) -> None:
        self.config = config
        self.console = Console(config, ROUTES)
        self.port = config.port
        self._sessions = Sessions(lambda: secrets.token_urlsafe(32))
        self._delays = LoginDelays()
        self._issuer = None if config.oidc is None else Issuer(config.oidc)
        self._tokens: WeakValueDictionary[str, Tokens] = WeakValueDictionary()
        """By subject, as long as a session or a client works with them."""
        self._bearers: dict[bytes, float] = {}
        """Hashes of assistants' tokens that the cluster has taken, and until when they count."""
        self._page = PageFiles()
        self._runner: web.ServerRunner | None = None
        self._sockets: dict[web.WebSocketResponse, Session] = {}
        self._closing: set[asyncio.Future[None]] = set()
        self._tidying: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        scheme = "https" if self.config.tls_certificate else "http"
        host = f"[{self.config.host}]" if ":" in self.config.host else self.config.host
        return f"{scheme}://{host}:{self.port}"

    async def start(self) -> None:
        tls = None
        if self.config.tls_certificate is not None:
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(self.config.tls_certificate, self.config.tls_key)
        server = HttpConnections(self._handle, access_log=None, handler_cancellation=True, keepalive_timeout=KEPT_FOR_S)
        self._runner = web.ServerRunner(server)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.config.host, self.config.port, ssl_context=tls).start()
        self.port = self._runner.addresses[0][1]
        self._tidying = asyncio.create_task(self._tidy())
        if not self._page.is_built:
            _log.warning("%s", self._page.advice)
        if not self.config.needs_login:
            for name in self.config.clusters:
                self.console.sampler(self.console.connections.find(name, None, {}))

    async def stop(self) -> None:
        if self._tidying is not None:
            self._tidying.cancel()
        for socket in list(self._sockets):
            with suppress(Exception):
                await socket.close(code=WSCloseCode.GOING_AWAY, message=b"the console stops")
        for closing in list(self._closing):
            closing.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
        await self.console.close()

    async def _tidy(self) -> None:
        while True:
            for _ in range(int(TIDY_S / LOOK_S)):
                await asyncio.sleep(LOOK_S)
                self._close_sockets()
                await self._renew_live()
            await self.console.connections.close_idle()

    async def _renew_live(self) -> None:
        """Renew the tokens of live views, which make no requests that would."""
        due = {id(one): one for one in map(_tokens, self._sockets.values()) if one is not None and one.is_due}
        await asyncio.gather(*(asyncio.to_thread(one) for one in due.values()), return_exceptions=True)

    def _close_sockets(self) -> None:
        """Close the live views of ended sessions and tokens: a page that is logged out gets no more data."""
        now = time.monotonic()
        for socket, session in self._sockets.items():
            tokens = _tokens(session)
            if not self._sessions.is_open(session, now):
                why = b"the session has ended"
            elif tokens is not None and tokens.is_over:
                why = b"the login has expired"
            else:
                continue
            closing = asyncio.ensure_future(_closed(socket, why))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    # Requests

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.rel_url.raw_path
        try:
            self._check_host(request)
            if path == "/mcp":
                return await self._mcp(request)
            if path.startswith("/api/"):
                return await self._api(request, path.removeprefix("/api/"))
            return self._file(request, path)
        except Fault as fault:
            return _json(fault.document(), fault.status)
        except KafkaError as error:
            refused = of_kafka(error)
            return _json(refused.document(), refused.status)
        except asyncio.CancelledError:
            raise
        except ConnectionError:
            raise
        except Exception:
            _log.exception("%s %s failed", request.method, path[:200])
            broken = Fault(500, "INTERNAL", "the console met an error of its own", "its log says more")
            return _json(broken.document(), broken.status)

    def _check_host(self, request: web.BaseRequest) -> None:
        """An attacker's DNS name that points to this machine must not reach a console without login."""
        name = request.headers.get("Host", "").lower()
        host = name if name.endswith("]") else name.rpartition(":")[0] if ":" in name else name
        if is_loopback(self.config.host) and host not in LOOPBACK_NAMES:
            raise Fault(403, "FORBIDDEN_ORIGIN", f"this console is not {name[:100]!r}", f"use {self.url}")

    def _check_origin(self, request: web.BaseRequest, *, is_needed: bool = False) -> None:
        origin = request.headers.get("Origin")
        if origin is None and not is_needed:
            return
        given = (origin or "").partition("://")[2].lower()
        if given != request.headers.get("Host", "").lower():
            raise Fault(403, "FORBIDDEN_ORIGIN", f"requests from {(origin or 'nowhere')[:100]!r} are not taken", None)

    def _file(self, request: web.BaseRequest, path: str) -> web.Response:
        if request.method not in ("GET", "HEAD"):
            raise Fault(405, "INVALID", f"{request.method} is not what this path takes")
        found = self._page.find(path)
        if found is None:
            raise Fault(404, "NOT_FOUND", "there is no such file")
        headers = {**HEADERS, "Content-Type": found.type, "Cache-Control": found.cache}
        body = found.data
        if found.compressed is not None and "gzip" in request.headers.get("Accept-Encoding", ""):
            headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
            body = found.compressed
        return web.Response(body=body, headers=headers)

    # The interface

    async def _api(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        now = time.monotonic()
        session = self._sessions.find(request.cookies.get(self._cookie), now)
        if path == "session" and request.method == "GET":
            session = session or self._sessions.open(now, request.remote or "")
            return self._with_cookie(_json(self._session(session), 200), session, request)
        if session is None:
            raise Fault(401, "LOGIN_REQUIRED", "there is no session", "ask /api/session first; cookies are needed")
        if path.startswith("clusters/"):
            cluster, _, rest = path.removeprefix("clusters/").partition("/")
            await _renew(session)
            connection = self._connection(session, cluster)
            if rest == "live" and request.method == "GET":
                self._check_origin(request, is_needed=True)
                return await self._live(request, session, connection)
        self._check_origin(request)
        if request.method == "POST" and not session.is_csrf(request.headers.get(CSRF_HEADER)):
            raise Fault(403, "CSRF", f"the header {CSRF_HEADER} is not the session's", "load the page again")
        if path == "login" and request.method == "POST":
            return await self._login(request, session)
        if path == "logout" and request.method == "POST":
            self._sessions.end(session)
            self._close_sockets()
            session = self._sessions.open(now, request.remote or "")
            return self._with_cookie(_json(self._session(session), 200), session, request)
        if not path.startswith("clusters/"):
            raise Fault(404, "NOT_FOUND", f"there is nothing at /api/{path[:200]}")
        body = await _document(request) if request.method == "POST" else None
        call = Call(self.console, connection, {}, request.query, body, session.user, request.remote or "")
        made = await self.console.answer(request.method, rest, call)
        return _download(made) if isinstance(made, Download) else _json(made, 200, request)

    @property
    def _cookie(self) -> str:
        return f"ottla_console_{self.port}"

    def _with_cookie(self, response: web.Response, session: Session, request: web.BaseRequest) -> web.Response:
        response.set_cookie(self._cookie, session.id, httponly=True, samesite="Strict", secure=request.secure, path="/")
        return response

    def _session(self, session: Session) -> dict[str, Any]:
        config = self.config
        is_in = session.user is not None
        return {
            "version": __version__,
            "user": session.user,
            "login": ("done" if is_in else "required") if config.needs_login else "none",
            "mechanisms": list(MECHANISMS) if config.needs_login and config.has_passwords else [],
            "oidc": config.oidc is not None,
            "csrf": session.csrf,
            "read_only": config.is_read_only,
            "clusters": [
                {"name": name, "bootstrap": settings.get("bootstrap.servers", "")}
                for name, settings in (config.clusters.items() if is_in or not config.needs_login else ())
            ],
            "features": features(config),
            "masking": list(config.masks) if is_in or not config.needs_login else [],
        }

    def _connection(self, session: Session, cluster: str) -> Connection:
        from urllib.parse import unquote

        if self.config.needs_login and session.user is None:
            raise Fault(401, "LOGIN_REQUIRED", "log in first")
        return self.console.connections.find(unquote(cluster), session.user, session.credentials)

    # Logins

    async def _login(self, request: web.BaseRequest, session: Session) -> web.StreamResponse:
        if not self.config.needs_login:
            raise invalid("this console has no logins")
        try:
            async with asyncio.timeout(LOGIN_BODY_S):
                body = await _document(request, MAX_LOGIN_BYTES)
        except TimeoutError:
            raise Fault(408, "INVALID", f"the login did not arrive within {LOGIN_BODY_S:g} s") from None
        if isinstance(body, dict) and body.get("oidc") is True:
            with self._turn(request.remote or ""):
                return _json({"location": await self._begin(session)}, 200)
        if isinstance(body, dict) and "code" in body:
            attempt, session.attempt = session.attempt, None
            user, credentials = await self._answered(body, attempt, request.remote or "")
        else:
            user, credentials = await self._checked(body, request.remote or "")
        session = self._sessions.logged_in(session, user, credentials, time.monotonic())
        return self._with_cookie(_json(self._session(session), 200), session, request)

    @contextmanager
    def _turn(self, remote: str) -> Iterator[None]:
        """Only so many logins of an address, and of all, are under way: each may hold a thread or a connection."""
        if not self._delays.begin(remote):
            raise Fault(429, "TOO_MANY", "too many logins are being checked", "try again later")
        try:
            yield
        finally:
            self._delays.end(remote)

    # Logins by OpenID Connect

    @property
    def _redirect_url(self) -> str:
        oidc = self.config.oidc
        public = None if oidc is None else oidc.public_url
        return (public or self.url).rstrip("/") + CALLBACK

    def _its_issuer(self) -> Issuer:
        if self._issuer is None:
            raise invalid("this console has no logins by OpenID Connect", "it is started with --oidc-issuer")
        return self._issuer

    async def _begin(self, session: Session) -> str:
        """Where the browser goes; the session waits for its answer."""
        issuer = self._its_issuer()
        endpoint = await asyncio.to_thread(issuer.endpoint, "authorization_endpoint")
        session.attempt = Attempt(secrets.token_urlsafe(32), secrets.token_urlsafe(48), time.monotonic())
        return authorization_url(endpoint, issuer.config, session.attempt, self._redirect_url)

    async def _answered(self, body: dict[str, Any], attempt: Attempt | None, remote: str) -> tuple[str, dict[str, Any]]:
        issuer = self._its_issuer()
        code = parse_answer(body, attempt, time.monotonic())
        assert attempt is not None
        try:
            with self._turn(remote):
                grant = await asyncio.to_thread(issuer.exchange, code, attempt.verifier, self._redirect_url)
        except AuthenticationError as error:
            raise Fault(401, "LOGIN_FAILED", str(error.message), "log in again") from None
        return await self._by_token(grant, remote)

    async def _by_token(self, grant: Grant, remote: str) -> tuple[str, dict[str, Any]]:
        """The principal of a token and its settings, if the cluster takes the token."""
        tokens = Tokens(grant, None if self._issuer is None else self._issuer.refresh)
        user = principal_of(tokens.subject)
        cluster = next(iter(self.config.clusters))
        if not self._delays.begin(remote):
            raise Fault(429, "TOO_MANY", "too many logins are being checked", "try again later")
        trial = Connection(cluster, {**self.config.clusters[cluster], **credentials_with(tokens)}, user)
        places = (f"host {remote}",)
        try:
            await asyncio.sleep(self._delays.delay_s(places, time.monotonic()))
            await trial.admin()
        except AuthenticationError:
            self._delays.failed(places, time.monotonic())
            self.console.audit.record(cluster, user, remote, "login", "", is_success=False, reason="LOGIN_FAILED")
            raise Fault(
                401, "LOGIN_FAILED", "the cluster does not take this token", "see the log of its brokers"
            ) from None
        finally:
            self._delays.end(remote)
            await trial.close()
        # one for all sessions of the user, so that they share their clients; a token that can be renewed stays
        shared = self._tokens.setdefault(tokens.subject, tokens)
        if shared is not tokens and (grant.refresh is not None or shared.is_due):
            shared.take(tokens)
        self._delays.succeeded(places)
        self.console.audit.record(cluster, user, remote, "login", "", is_success=True)
        return user, credentials_with(shared)

    async def _bearer(self, token: str, remote: str) -> tuple[str, dict[str, Any]]:
        """An assistant's own token, which counts as checked for a while."""
        self._its_issuer()
        try:
            grant = Grant(token, None, BEARER_S)
            known = self._tokens.get(grant.subject)
        except ValueError as error:
            raise Fault(401, "LOGIN_REQUIRED", str(error)) from None
        now, digest = time.monotonic(), hashlib.sha256(token.encode()).digest()
        self._bearers = {one: until for one, until in self._bearers.items() if until > now}
        if known is not None and not known.is_due and digest in self._bearers:
            return principal_of(known.subject), credentials_with(known)
        found = await self._by_token(grant, remote)
        if len(self._bearers) < MAX_BEARERS:
            self._bearers[digest] = now + BEARER_S
        return found

    # Logins by name and password

    async def _checked(self, body: Any, remote: str) -> tuple[str, dict[str, str]]:
        """The principal and its settings, if the cluster takes them. A failure is answered late."""
        if not self.config.has_passwords:
            raise invalid("this console has no logins by password")
        name, credentials = credentials_of(body)
        with self._turn(remote):
            return await self._tried(name, credentials, remote)

    async def _tried(self, name: str, credentials: dict[str, str], remote: str) -> tuple[str, dict[str, str]]:
        places = (f"host {remote}", f"user {name}")
        await asyncio.sleep(self._delays.delay_s(places, time.monotonic()))
        cluster = next(iter(self.config.clusters))
        if self.console.connections.is_known(cluster, principal_of(name), credentials):
            return principal_of(name), credentials
        # separate until the cluster accepts it: a wrong password must not affect what the user has open
        trial = Connection(cluster, {**self.config.clusters[cluster], **credentials}, principal_of(name))
        try:
            await trial.admin()
            try:
                self.console.connections.adopt(trial)
            except Fault:
                await trial.close()
                raise
        except AuthenticationError:
            self._delays.failed(places, time.monotonic())
            self.console.audit.record(
                cluster, principal_of(name), remote, "login", "", is_success=False, reason="LOGIN_FAILED"
            )
            await asyncio.sleep(self._delays.delay_s(places, time.monotonic()))
            raise Fault(401, "LOGIN_FAILED", "the cluster does not take this name and password") from None
        self._delays.succeeded(places)
        self.console.audit.record(cluster, principal_of(name), remote, "login", "", is_success=True)
        return principal_of(name), credentials

    # The WebSocket

    async def _live(self, request: web.BaseRequest, session: Session, connection: Connection) -> web.StreamResponse:
        socket = web.WebSocketResponse(max_msg_size=MAX_FRAME_BYTES, heartbeat=HEARTBEAT_S, compress=False)
        await socket.prepare(request)
        self._sockets[socket] = session

        async def send(frame: dict[str, Any]) -> None:
            # waits while the socket is full: a slow page delays only its own tail, which then skips records
            if not socket.closed:
                await socket.send_str(_text(frame))

        live = Live(self.console, connection, session.user, request.remote or "", send)
        try:
            async with asyncio.timeout(HELLO_S):
                hello = await socket.receive()
            if hello.type is not WSMsgType.TEXT or not _is_hello(hello.data, session):
                await socket.close(code=WSCloseCode.POLICY_VIOLATION, message=b"hello with the csrf token is missing")
                return socket
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    session.used_at = time.monotonic()
                    await live.received(message.data)
        except (TimeoutError, ConnectionError):
            pass
        finally:
            await live.close()
            self._sockets.pop(socket, None)
        return socket

    # MCP

    async def _mcp(self, request: web.BaseRequest) -> web.StreamResponse:
        self._check_origin(request)
        if request.method != "POST":
            raise Fault(405, "INVALID", "MCP messages are sent by POST; this server opens no stream of its own")
        user, credentials = None, dict[str, Any]()
        if self.config.needs_login:
            user, credentials = await self._basic(request)
        answer = await mcp.answer(
            self.console, await _document(request), user, credentials, request.remote or "",
            may_write=self.config.may_mcp_write and not self.config.is_read_only,
        )  # fmt: skip
        if answer is None:
            return web.Response(status=202, headers=HEADERS)
        return _json(answer, 200, request)

    async def _basic(self, request: web.BaseRequest) -> tuple[str, dict[str, Any]]:
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return await self._bearer(given.strip(), request.remote or "")
        try:
            if kind.lower() != "basic":
                raise ValueError
            name, _, password = base64.b64decode(given, validate=True).decode().partition(":")
        except ValueError:
            raise Fault(
                401, "LOGIN_REQUIRED", "MCP needs the header Authorization: Basic", "name and password of the cluster"
            ) from None
        return await self._checked({"username": name, "password": password}, request.remote or "")


def _tokens(session: Session) -> Tokens | None:
    found = session.credentials.get(TOKEN_PROVIDER)
    return found if isinstance(found, Tokens) else None


async def _renew(session: Session) -> None:
    """An expired token is renewed before it is used; AuthenticationError: the login has expired."""
    tokens = _tokens(session)
    if tokens is not None and tokens.is_due:
        await asyncio.to_thread(tokens)


async def _closed(socket: web.WebSocketResponse, why: bytes) -> None:
    with suppress(ConnectionError):
        await socket.close(code=WSCloseCode.POLICY_VIOLATION, message=why)


def _is_hello(frame: str, session: Session) -> bool:
    try:
        given = json.loads(frame)
    except (ValueError, RecursionError):
        return False
    return isinstance(given, dict) and given.get("type") == "hello" and session.is_csrf(str(given.get("csrf")))


async def _document(request: web.BaseRequest, limit: int = MAX_BODY_BYTES) -> Any:
    """The body as JSON, up to the limit."""
    too_large = Fault(413, "INVALID", f"the body has more than {limit} bytes")
    if (request.content_length or 0) > limit:
        raise too_large
    found = bytearray()
    async for chunk in request.content.iter_chunked(64 * 1024):
        found += chunk
        if len(found) > limit:
            raise too_large
    if not found:
        return {}
    try:
        return json.loads(found)
    except (ValueError, RecursionError):
        raise invalid("the body is not valid JSON") from None


def _text(made: Any) -> str:
    # "</script>" and the like are text to the page, but no reader of an answer should have to rely on that
    return json.dumps(made, separators=(",", ":")).replace("<", "\\u003c")


def _json(made: Any, status: int, request: web.BaseRequest | None = None) -> web.Response:
    headers = {**HEADERS, "Content-Type": "application/json", "Cache-Control": "no-store"}
    response = web.Response(text=_text(made), status=status, headers=headers)
    if request is not None and response.content_length and response.content_length > COMPRESSED_BYTES:
        response.enable_compression()
    return response


def _download(made: Download) -> web.Response:
    headers = {
        **HEADERS,
        "Content-Type": "application/octet-stream",
        "Content-Disposition": f'attachment; filename="{made.name}"',
        "Cache-Control": "no-store",
    }
    return web.Response(body=made.data, headers=headers)
