"""`ottla pipeline webhook NAME`: the listener of a pipeline's webhooks, a process of its own. It goes on while the
pipeline is changed or stopped; what it took is in the topic.

Everything that a client can make grow is bounded: connections, bytes that are read and not yet written, the time for a
request and for its record.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.cli.output import notice
from ottla.cli.session import CommandError

if TYPE_CHECKING:
    from ottla.client import Producer
    from ottla.spark.pipelines.broker_watch import BrokerWatch
    from ottla.spark.pipelines.connection import Connection
    from ottla.spark.pipelines.definition import Pipeline
    from ottla.spark.pipelines.webhook import BadRequest, Head, Webhook

MAX_CONNECTIONS = 512
MAX_WAITING_BYTES = 64 * 1024 * 1024
READ_TIMEOUT_S = 15.0
DELIVERY_TIMEOUT_MS = 20_000
STOP_TIMEOUT_S = 25.0
REASONS = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 405: "Method Not Allowed",
    408: "Request Timeout", 411: "Length Required", 413: "Content Too Large",
    431: "Request Header Fields Too Large", 503: "Service Unavailable",
}  # fmt: skip


class Listener:
    """Takes requests for the webhooks of a pipeline and writes them to topics."""

    def __init__(self, hooks: dict[str, tuple[str, Webhook]], producer: Producer, brokers: BrokerWatch) -> None:
        self._hooks = hooks
        """By path: the topic, and what a request has to be."""
        self._producer = producer
        self._brokers = brokers
        self._connections: set[asyncio.Task[None]] = set()
        self._busy: set[asyncio.Task[None]] = set()
        self._waiting_bytes = 0
        self._is_stopping = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if len(self._connections) > MAX_CONNECTIONS:
                await _answer(writer, 503, "too many connections", keeps_open=False)
                return
            while await self._request(reader, writer, task):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            self._busy.discard(task)
            writer.close()

    async def _request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> bool:
        """Answer one request; whether another may follow on the connection."""
        from ottla.spark.pipelines.webhook import BadRequest, parse_head

        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                data = await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            return False
        except asyncio.LimitOverrunError:
            await _answer(writer, 431, "the head of the request is too large", keeps_open=False)
            return False
        self._busy.add(task)
        try:
            head = parse_head(data[:-4])
            status, text, keeps_open = await self._handled(head, reader, writer)
        except BadRequest as error:
            status, text, keeps_open = _refused(error)
        keeps_open = keeps_open and not self._is_stopping
        await _answer(writer, status, text, keeps_open=keeps_open)
        self._busy.discard(task)
        return keeps_open

    async def _handled(
        self, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[int, str, bool]:
        from ottla.spark.pipelines.webhook import BadRequest, body_length

        if head.method == "GET" and head.path == "/health":
            outage, keeps_open = self._brokers.outage, head.keeps_open and "content-length" not in head.headers
            if outage is not None:
                return 503, json.dumps({"status": "unavailable", "error": str(outage)}), keeps_open
            return 200, json.dumps({"status": "ok"}), keeps_open
        if head.path not in self._hooks:
            raise BadRequest(404, f"there is no webhook at this path; there is {', '.join(self._hooks)}")
        if head.method != "POST":
            raise BadRequest(405, "a webhook takes POST")
        topic, hook = self._hooks[head.path]
        length = body_length(head, hook.max_body)
        if self._waiting_bytes + length > MAX_WAITING_BYTES or self._is_stopping:
            raise BadRequest(503, "too much waits to be written: try again later")
        self._waiting_bytes += length
        try:
            if head.headers.get("expect", "").lower() == "100-continue":
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            try:
                async with asyncio.timeout(READ_TIMEOUT_S):
                    body = await reader.readexactly(length)
            except TimeoutError:
                raise BadRequest(408, "the body did not come in time") from None
            refusal = hook.refusal(head.headers, body)
            if refusal is not None:
                return 401, json.dumps({"error": refusal}), head.keeps_open
            return await self._written(topic, hook, head, body)
        finally:
            self._waiting_bytes -= length

    async def _written(self, topic: str, hook: Webhook, head: Head, body: bytes) -> tuple[int, str, bool]:
        from ottla.client.errors import KafkaError

        value, key, headers = hook.record(head.headers, body)
        try:
            written = await self._producer.send(topic, value, key, headers)
        except KafkaError as error:
            notice(f"a request for {head.path} was not written: {error}")
            return 503, json.dumps({"error": "the record was not written: try again"}), head.keeps_open
        place = {"topic": written.topic, "partition": written.partition, "offset": written.offset}
        return 200, json.dumps(place), head.keeps_open

    async def stop(self) -> None:
        """End connections: idle ones at once, others when their request is answered."""
        self._is_stopping = True
        for task in self._connections - self._busy:
            task.cancel()
        if self._busy:
            await asyncio.wait(set(self._busy), timeout=STOP_TIMEOUT_S)


def _refused(error: BadRequest) -> tuple[int, str, bool]:
    """The body was not read, so the connection cannot serve again."""
    return error.status, json.dumps({"error": str(error)}), False


async def _answer(writer: asyncio.StreamWriter, status: int, text: str, *, keeps_open: bool) -> None:
    body = text.encode()
    lines = [f"HTTP/1.1 {status} {REASONS[status]}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    if status == 503:
        lines.append("Retry-After: 2")
    if not keeps_open:
        lines.append("Connection: close")
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    await writer.drain()


def serve_webhooks(options: argparse.Namespace, pipeline: Pipeline, connection: Connection) -> int:
    hooks = {source.name: source for source in pipeline.sources if source.webhook is not None}
    if not hooks:
        raise CommandError(
            f"{pipeline.name} has no webhook: a source has one with 'topic: NAME' and 'webhook: {{port: 8090}}'"
        )
    _make_topics(pipeline, connection)
    return asyncio.run(_serve(pipeline, connection))


def _make_topics(pipeline: Pipeline, connection: Connection) -> None:
    from ottla.client.admin import NewTopic

    with connection.admin() as admin:
        known = admin.list_topics()
        wanted = dict.fromkeys(source.topic or "" for source in pipeline.sources if source.webhook is not None)
        missing = [NewTopic(topic) for topic in wanted if topic not in known]
        if missing:
            admin.create_topics(missing)


async def _serve(pipeline: Pipeline, connection: Connection) -> int:
    from ottla.client import Producer
    from ottla.spark.pipelines.broker_watch import BrokerWatch
    from ottla.spark.pipelines.webhook import MAX_HEAD_BYTES

    places: dict[tuple[str, int], dict[str, tuple[str, Webhook]]] = {}
    for source in pipeline.sources:
        if source.webhook is not None and source.topic is not None:
            hook = source.webhook
            hooks = places.setdefault((hook.host, hook.port), {})
            if hook.path in hooks:
                raise CommandError(f"sources.{source.name}.webhook: {hook.path} is taken by another source")
            hooks[hook.path] = (source.topic, hook)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    settings = {**connection.producer_settings(), "acks": "all", "delivery.timeout.ms": str(DELIVERY_TIMEOUT_MS)}
    settings.setdefault("request.timeout.ms", "10000")
    brokers = BrokerWatch(connection)
    async with Producer(settings) as producer:
        servers, listeners = [], []
        brokers.start()
        try:
            for (host, port), hooks in places.items():
                listener = Listener(hooks, producer, brokers)
                try:
                    server = await asyncio.start_server(listener.serve, host, port, limit=MAX_HEAD_BYTES)
                except OSError as error:
                    raise CommandError(f"{host}:{port} cannot be listened on: {error.strerror or error}") from None
                servers.append(server)
                listeners.append(listener)
                taken = server.sockets[0].getsockname()[1]
                for path, (topic, _) in hooks.items():
                    notice(f"http://{host}:{taken}{path} is written to {topic}")
            await stopped.wait()
        finally:
            await asyncio.to_thread(brokers.stop)
            for server in servers:
                server.close()
            await asyncio.gather(*(listener.stop() for listener in listeners))
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    for server in servers:
                        await server.wait_closed()
    return 0
