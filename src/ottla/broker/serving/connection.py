"""The server's side of one client connection: requests are started, and their answers sent, in the order of arrival.

Stage one of a request runs here, synchronously. An answer that has to wait (acks=all, min.bytes, a metadata commit) is
a future; later answers wait for it. A bad request costs at most its own connection: if it cannot be decoded, or this
node does not serve the API, the connection is closed, as in Kafka.

Cython compiles this file (types in connection.pxd), and it runs as it stands.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.caller import BoundHandler, Caller, Client
from ottla.broker.serving.api import Api, DelayedAnswer, FrameHandler
from ottla.wire import WireError, decoder, frames
from ottla.wire.acls import AclOperation
from ottla.wire.apis import APIS, request_class, response_class
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

if TYPE_CHECKING:
    from ottla.broker.metrics import Metrics
    from ottla.broker.serving.serving import Serving

log = logging.getLogger("ottla.serving")

API_VERSIONS_KEY = 18
MAX_WAITING_PER_CONNECTION = 128
MAX_UNSENT_BYTES = 16 * 1024 * 1024
MAX_PLAIN_REQUEST_BYTES = 8 * 1024 * 1024
"""The limit for a request without records. Its fields become objects of many times their size:
`socket.request.max.bytes` of small fields would take gigabytes, and no client needs so many.
"""
REQUEST_HEADER_SIZE = 10
"""The part that every request begins with, before the client's name."""
NEVER = 0x7FFF
PRODUCE_KEY = 0


class ServedApi:
    """One API as connections use it: its handler, and a decoder for each version, made when first needed."""

    __slots__ = (
        "api",
        "decoders",
        "direct_handler",
        "first_flexible_version",
        "frame_handler",
        "frame_rooms",
        "handler",
        "max_version",
        "min_version",
        "name",
        "observe",
        "request_class",
        "response_class",
        "roles",
    )

    def __init__(self, api: Api, rooms: tuple[Any, ...], frame_rooms: tuple[Any, ...], metrics: Metrics) -> None:
        key = api.key
        info = APIS[key]
        self.name = info.name
        self.roles = info.listeners
        self.min_version = info.min_version
        self.max_version = info.max_version
        self.first_flexible_version = NEVER if info.first_flexible_version is None else info.first_flexible_version
        self.request_class = request_class(key)
        self.response_class = response_class(key)
        self.api = api
        handler = api.handler
        bound: BoundHandler = lambda request, caller: handler(request, *rooms, caller)  # noqa: E731
        self.direct_handler: BoundHandler = bound if api.required is None else _required(api.required, bound)
        """The handler that answers on this node."""
        self.handler: BoundHandler = self.direct_handler
        """`direct_handler`, or a wrapper that forwards requests which only the active controller may answer."""
        self.frame_handler: FrameHandler | None = api.frame
        """Answers an ordinary request directly from its frame, without decoding it; None for other APIs."""
        self.frame_rooms = frame_rooms
        self.decoders: dict[int, Any] = {}
        self.observe = metrics.request_observer(info.name)

    def decoder(self, version: int) -> Any:
        made = self.decoders.get(version)
        if made is None:
            made = self.decoders[version] = decoder(self.request_class, version)
        return made


class AnswerChannel(Protocol):
    """The part of a channel that a connection uses."""

    out_bytes: int
    """The size of the answers that the client has not taken yet."""

    def send(self, parts: list[Any]) -> None: ...
    def close(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def when_drained(self, callback: Callable[[], None]) -> None: ...


class Gate(Protocol):
    """Decides which frames of a connection may pass (`serving.login`)."""

    def takes(self, frame: memoryview) -> bool: ...


class _Slot:
    """An answer's place in the queue."""

    __slots__ = ("delayed", "future", "parts", "throttle_ms")

    def __init__(self) -> None:
        self.parts: list[Any] | None = None
        self.future: asyncio.Future[Any] | None = None
        self.delayed: DelayedAnswer | None = None
        self.throttle_ms = 0


def _required(operation: AclOperation, handler: BoundHandler) -> BoundHandler:
    """Wraps a handler: it serves only clients that may do this on the cluster."""

    def handle(request: Any, caller: Caller) -> Any:
        if not caller.is_allowed_on_cluster(operation):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return handler(request, caller)

    return handle


class Connection:
    __slots__ = (
        "_channel",
        "_ground",
        "_is_held",
        "_is_ordering",
        "_is_releasing",
        "_is_throttled",
        "_served",
        "_serving",
        "_slots",
        "_timer",
        "client",
        "gate",
        "is_closed",
    )

    def __init__(self, serving: Serving, channel: AnswerChannel, client: Client) -> None:
        self._serving = serving
        self._ground = serving.ground
        self._served = serving.apis.served
        self._channel = channel
        self.client = client
        self._slots: deque[_Slot] = deque()
        self._is_held = self._is_throttled = self._is_releasing = self._is_ordering = False
        self._timer = serving.ground.timer
        self.is_closed = False
        self.gate: Gate | None = None
        """Checks every frame until the login is complete; None: all pass."""

    def frame_received(self, frame: memoryview) -> None:
        try:
            self._start(frame)
        except Exception as error:
            self._bug("a request could not be answered", error)
            self._channel.close()

    def _start(self, frame: memoryview) -> None:
        """Stage one of a request."""
        if self.gate is not None and self.gate.takes(frame):
            return
        started = self._timer()
        if self._start_from_frame(frame, started):
            return
        try:
            header, position = frames.decode_request_header(frame)
        except WireError as error:
            self._refuse(f"a request header that cannot be read ({error})")
            return
        served = self._served(header.api_key)
        version = header.api_version
        if (
            served is None
            or self.client.role not in served.roles
            or not served.min_version <= version <= served.max_version
        ):
            if header.api_key == API_VERSIONS_KEY:
                self._answer_unsupported_api_versions(header)
            else:
                self._refuse(f"API key {header.api_key} version {version}, which this node does not serve")
            return
        caller = Caller(header.client_id, self.client, header.api_key, version)
        if len(frame) > MAX_PLAIN_REQUEST_BYTES and header.api_key != PRODUCE_KEY:
            self._refuse(f"a {served.name} request of {len(frame)} bytes; at most {MAX_PLAIN_REQUEST_BYTES} are taken")
            return
        try:
            request, _ = served.decoder(version)(frame, position)
        except WireError as error:
            self._refuse(f"a {served.name} v{version} request that cannot be read ({error})")
            return
        try:
            answer = served.handler(request, caller)
        except Exception as error:
            answer = self._failed(served, request, error)
            if answer is None:
                return
        if caller.done_in_order is not None:
            self._order(caller.done_in_order)
        if answer is None:
            served.observe(self._timer() - started, len(frame))
            if caller.is_refused:
                self._channel.close()
            elif caller.throttle_ms:
                self._throttle(caller.throttle_ms)
            return
        if self._serving.quotas.is_request_quota_set:
            self._count_request_time(caller, answer, self._timer() - started)
        if answer.__class__ is served.response_class:
            parts = frames.encode_response(header.api_key, header.api_version, header.correlation_id, answer)
            served.observe(self._timer() - started, len(frame))
            if not self._slots:
                self._channel.send(parts)
                if caller.throttle_ms:
                    self._throttle(caller.throttle_ms)
                if self._channel.out_bytes > MAX_UNSENT_BYTES:
                    self._hold()
                return
            slot = _Slot()
            slot.parts = parts
            slot.throttle_ms = caller.throttle_ms
            self._slots.append(slot)
        else:
            slot = _Slot()
            self._slots.append(slot)
            future = slot.future = asyncio.ensure_future(answer)
            future.add_done_callback(
                partial(self._answered, slot, served, header, request, caller, started, len(frame))
            )
        if len(self._slots) >= MAX_WAITING_PER_CONNECTION:
            self._hold()

    def _start_from_frame(self, frame: memoryview, started: float) -> bool:
        """Try to answer a request directly from its frame; True if that was possible."""
        data = frame
        size = len(frame)
        if size < REQUEST_HEADER_SIZE:
            return False
        served = self._served(data[0] << 8 | data[1])
        if served is None or served.frame_handler is None or self.client.role not in served.roles:
            return False
        version = data[2] << 8 | data[3]
        position = REQUEST_HEADER_SIZE + (data[8] << 8 | data[9])
        if (
            version < served.min_version
            or version > served.max_version
            or position >= size  # or no client id, which is a size of -1
            or not bytes(frame[REQUEST_HEADER_SIZE:position]).isascii()
        ):
            return False
        if version >= served.first_flexible_version:
            if data[position] != 0:  # tagged fields
                return False
            position += 1
        correlation_id = data[4] << 24 | data[5] << 16 | data[6] << 8 | data[7]
        access = self.client.access
        known = access if access.authorizer is not None else None
        response = served.frame_handler(frame, position, version, correlation_id, served.frame_rooms, known)
        if response is None:
            return False
        if isinstance(response, bytes):
            response = [response]
        if isinstance(response, list):
            served.observe(self._timer() - started, size)
            if not self._slots:
                self._channel.send(response)
                if self._channel.out_bytes > MAX_UNSENT_BYTES:
                    self._hold()
                return True
            slot = _Slot()
            slot.parts = response
        else:
            slot = _Slot()
            slot.delayed = response
            response.on_answer = partial(self._answered_from_frame, slot, served, started, size)
        self._slots.append(slot)
        if len(self._slots) >= MAX_WAITING_PER_CONNECTION:
            self._hold()
        return True

    def _answered_from_frame(self, slot: _Slot, served: ServedApi, started: float, size: int, answer: Any) -> None:
        slot.parts = answer if isinstance(answer, list) else [answer]
        slot.delayed = None
        served.observe(self._timer() - started, size)
        if not self._is_releasing:
            # Send together with other answers of this turn.
            self._is_releasing = True
            self._ground.loop.call_soon(self._release_together)

    def _release_together(self) -> None:
        self._is_releasing = False
        self._release()

    def channel_closed(self) -> None:
        self.is_closed = True
        if self.client.login is not None:
            self.client.login.closed()
        for slot in self._slots:
            if slot.future is not None:
                slot.future.cancel()
            elif slot.delayed is not None:
                slot.delayed.cancel()
        self._slots.clear()
        self._serving.connection_closed(self)

    def _answered(
        self,
        slot: _Slot,
        served: ServedApi,
        header: frames.RequestHeader,
        request: Any,
        caller: Caller,
        started: float,
        size: int,
        done: asyncio.Future[Any],
    ) -> None:
        if self.is_closed or done.cancelled():
            if not done.cancelled():
                done.exception()  # retrieved so that asyncio does not log it: no answer is needed
            return
        error = done.exception()
        answer = done.result() if error is None else self._failed(served, request, error)
        if answer is None:
            if error is None and caller.done_in_order is not None and not caller.is_refused:
                self._slots.remove(slot)  # acks=0 has no answer
                self._release()
            else:
                self._channel.close()
            return
        slot.future = None
        try:
            slot.parts = frames.encode_response(header.api_key, header.api_version, header.correlation_id, answer)
        except Exception as unencodable:
            self._bug(f"an answer to {served.name} could not be encoded", unencodable)
            self._channel.close()
            return
        slot.throttle_ms = caller.throttle_ms
        served.observe(self._timer() - started, size)
        self._release()
        if caller.is_refused:
            self._channel.when_drained(self._channel.close)

    def _release(self) -> None:
        """Send every answer whose turn has come."""
        slots = self._slots
        ready: list[Any] = []
        while slots and slots[0].parts is not None:
            slot = slots.popleft()
            assert slot.parts is not None
            ready += slot.parts
            if slot.throttle_ms:
                self._throttle(slot.throttle_ms)
        if ready:
            self._channel.send(ready)
        if self._is_held and len(slots) < MAX_WAITING_PER_CONNECTION // 2:
            self._channel.when_drained(self._unhold)

    def _hold(self) -> None:
        """Too much is pending for this client: stop reading its requests until it has taken its answers."""
        if not self._is_held:
            self._is_held = True
            self._channel.pause_reading()
            if not self._slots:
                self._channel.when_drained(self._unhold)

    def _unhold(self) -> None:
        if self._is_held and len(self._slots) < MAX_WAITING_PER_CONNECTION // 2:
            self._is_held = False
            if not self._is_throttled and not self._is_ordering:
                self._channel.resume_reading()

    def _throttle(self, throttle_ms: int) -> None:
        """A quota was exceeded: the answer says so, and the connection is not read for that time."""
        self._ground.metrics.throttled_requests.add()
        if not self._is_throttled:
            self._is_throttled = True
            self._channel.pause_reading()
            asyncio.get_running_loop().call_later(throttle_ms / 1000, self._unthrottle)

    def _unthrottle(self) -> None:
        self._is_throttled = False
        if not self._is_held and not self._is_ordering:
            self._channel.resume_reading()

    def _order(self, done: asyncio.Future[Any]) -> None:
        """Start no further request of this client before this one is done."""
        self._is_ordering = True
        self._channel.pause_reading()
        done.add_done_callback(self._ordered)

    def _ordered(self, done: asyncio.Future[Any]) -> None:
        self._is_ordering = False
        if not self._is_held and not self._is_throttled:
            self._channel.resume_reading()

    def _count_request_time(self, caller: Caller, answer: Any, seconds: float) -> None:
        """Count the time that this thread spent on the request, without a wait for the answer."""
        throttle_ms = self._serving.quotas.record_request_time(caller, seconds, self._ground.now())
        if throttle_ms > caller.throttle_ms:
            caller.throttle_ms = throttle_ms
            if hasattr(answer, "throttle_time_ms"):
                answer.throttle_time_ms = throttle_ms

    def _bug(self, what: str, error: BaseException) -> None:
        log.error("a bug: %s (client at %s)", what, self.client.host, exc_info=error)
        self._ground.bug(error)

    def _refuse(self, what: str) -> None:
        log.info("closing the connection of %s: it sent %s", self.client.host, what)
        self._ground.metrics.refused_requests.add()
        self._channel.close()

    def _failed(self, served: ServedApi, request: Any, error: BaseException) -> Any:
        """The answer to a request whose handler raised: with Kafka's code if the response has a field for it."""
        if isinstance(error, KafkaError):
            code, message = error.code, error.message
        elif isinstance(error, asyncio.CancelledError):
            return None
        else:
            code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
            self._bug(f"{served.name} failed", error)
        response = served.response_class()
        if hasattr(response, "error_code"):
            response.error_code = code
            if message and hasattr(response, "error_message"):
                response.error_message = message
            return response
        self._channel.close()
        return None

    def _answer_unsupported_api_versions(self, header: frames.RequestHeader) -> None:
        """KIP-511: answered in version 0, with the versions that would do."""
        info = APIS[API_VERSIONS_KEY]
        known = ApiVersion(api_key=API_VERSIONS_KEY, min_version=info.min_version, max_version=info.max_version)
        answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[known])
        parts = frames.encode_response(header.api_key, 0, header.correlation_id, answer)
        if self._slots:
            slot = _Slot()
            slot.parts = parts
            self._slots.append(slot)
        else:
            self._channel.send(parts)
