"""kafka-console-producer: a record for every line of stdin."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import sys
import threading
from functools import partial
from typing import Any

from ottla.cli.kafka.connection import (
    CONFIG_EXCEPTION,
    check_addresses,
    known_settings,
    read_properties,
)
from ottla.cli.kafka.deprecated import in_use, refuse_both
from ottla.cli.kafka.entry import run_async, run_tool
from ottla.cli.kafka.exceptions import java_text, log, show_warnings
from ottla.cli.kafka.failures import execution_failure
from ottla.cli.kafka.line_reader import InputRecord, LineReader, Lines
from ottla.cli.kafka.options import (
    INTEGER,
    LONG,
    Option,
    OptionError,
    OptionParser,
    Options,
    ToolError,
    UsageError,
    key_values,
)
from ottla.client.config import ProducerConfig
from ottla.client.delivery import Delivery
from ottla.client.errors import ConfigError, KafkaError
from ottla.client.producer import Producer

LINE_READER = "org.apache.kafka.tools.LineMessageReader"
ERROR_LOGGER = "org.apache.kafka.clients.producer.internals.ErrorLoggingCallback"
READ_SIZE = 1 << 16
_ADDRESS = re.compile(r"([^:/]+://)?(\[[0-9a-zA-Z:%._-]+\]|[0-9a-zA-Z\-%._]*):[0-9]+")
_READER_PROPERTIES = """\
 parse.key=false
 parse.headers=false
 ignore.error=false
 key.separator=\\t
 headers.delimiter=\\t
 headers.separator=,
 headers.key.separator=:
 null.marker=<the text for null>
A line is then headers, key and value: "h1:v1,h2:v2\\tkey\\tvalue\""""
PARSER = OptionParser(
    Option("topic", "REQUIRED: the topic to write to.", argument="topic"),
    Option("bootstrap-server", "REQUIRED: where the cluster is found.", argument="server to connect to"),
    Option("sync", "Wait for each record to be written before the next line is read."),
    Option(
        "compression-codec",
        "none, gzip, snappy, lz4 or zstd; gzip if none is named.",
        argument="compression-codec",
        is_argument_optional=True,
    ),
    Option("batch-size", "batch.size: bytes of a full batch.", argument="size", kind=INTEGER, default=16_384),
    Option(
        "message-send-max-retries", "retries: how often a batch is sent again.", argument="", kind=INTEGER, default=3
    ),
    Option("retry-backoff-ms", "retry.backoff.ms: the pause before that.", argument="", kind=LONG, default=100),
    Option(
        "timeout",
        "linger.ms: how long a record waits for others.",
        argument="timeout_ms",
        kind=LONG,
        default=1000,
    ),
    Option(
        "request-required-acks",
        "acks: which replicas must have written a record.",
        argument="request required acks",
        default="-1",
    ),
    Option(
        "request-timeout-ms",
        "request.timeout.ms: how long an answer may take.",
        argument="request timeout ms",
        kind=INTEGER,
        default=1500,
    ),
    Option(
        "metadata-expiry-ms",
        "metadata.max.age.ms: how old metadata may get.",
        argument="metadata expiration interval",
        kind=LONG,
        default=300_000,
    ),
    Option(
        "max-block-ms",
        "max.block.ms: how long a record may wait for metadata and for room.",
        argument="max block on send",
        kind=LONG,
        default=60_000,
    ),
    Option(
        "max-memory-bytes",
        "buffer.memory: bytes that may wait.",
        argument="total memory in bytes",
        kind=LONG,
        default=33_554_432,
    ),
    Option(
        "max-partition-memory-bytes",
        "(Deprecated) See --batch-size.",
        argument="memory in bytes per partition",
        kind=INTEGER,
        default=16_384,
    ),
    Option("line-reader", "The class that reads lines.", argument="reader_class", default=LINE_READER),
    Option("socket-buffer-size", "send.buffer.bytes of the sockets.", argument="size", kind=INTEGER, default=102_400),
    Option("property", "(DEPRECATED) See --reader-property.", argument="prop"),
    Option("reader-property", f"How lines are read:\n{_READER_PROPERTIES}", argument="prop"),
    Option("reader-config", "A properties file for that; [reader-property] wins.", argument="config file"),
    Option("producer-property", "(DEPRECATED) See --command-property.", argument="producer_prop"),
    Option("command-property", "A setting of the producer, key=value; may be repeated.", argument="producer_prop"),
    Option("producer.config", "(DEPRECATED) See --command-config.", argument="config file"),
    Option("command-config", "A properties file for the producer; [command-property] wins.", argument="config file"),
)
_OPTIONS_OF_SETTINGS = {
    "linger.ms": "timeout",
    "acks": "request-required-acks",
    "request.timeout.ms": "request-timeout-ms",
    "retries": "message-send-max-retries",
    "retry.backoff.ms": "retry-backoff-ms",
    "send.buffer.bytes": "socket-buffer-size",
    "buffer.memory": "max-memory-bytes",
    "batch.size": "batch-size",
    "metadata.max.age.ms": "metadata-expiry-ms",
    "max.block.ms": "max-block-ms",
}
"""A setting is what its option says; without the option what the properties say; else the option's default."""


def main(arguments: list[str]) -> int:
    return run_tool(PARSER, arguments, _run)


def _run(options: Options) -> int:
    options.help_or_version("This tool helps to read data from standard input and publish it to Kafka.")
    options.require("topic")
    refuse_both(options, "command-config", "producer.config")
    refuse_both(options, "command-property", "producer-property")
    refuse_both(options, "reader-property", "property")
    properties = in_use(options, "producer-property", "command-property", "Warning:")
    config = in_use(options, "producer.config", "command-config", "Warning:")
    reader_properties = in_use(options, "property", "reader-property", "Warning:")
    if options.has("max-partition-memory-bytes"):
        print(
            "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0. "
            "Use --batch-size instead."
        )
    _check_bootstrap(options.value("bootstrap-server"))
    sys.stdout.flush()
    try:
        reader = _line_reader(options, reader_properties)
        settings = _settings(options, config, properties)
        show_warnings()
        return run_async(_produce(options.value("topic"), reader, settings, is_sync=options.has("sync")))
    except OptionError as error:
        print(error.message, file=sys.stderr)
    except ToolError as error:
        sys.stderr.write(error.trace)
    return 1


def _check_bootstrap(given: str | None) -> None:
    if given is None or not given.strip():
        raise UsageError("Error while validating the bootstrap address\n")
    if not all(_ADDRESS.fullmatch(address) for address in given.split(",")):
        raise UsageError("Please provide valid host:port like host1:9091,host2:9092\n")


def _line_reader(options: Options, given: str) -> LineReader:
    if options.value("line-reader") != LINE_READER:
        raise ToolError(options.value("line-reader"), "java.lang.ClassNotFoundException")
    properties = read_properties(options.value("reader-config")) if options.has("reader-config") else {}
    return LineReader({**properties, **key_values(options.values(given))})


def _settings(options: Options, config: str, properties: str) -> dict[str, str]:
    settings = read_properties(options.value(config)) if options.has(config) else {}
    settings.update(key_values(options.values(properties)))
    settings["bootstrap.servers"] = check_addresses(options.value("bootstrap-server"))
    codec = options.value("compression-codec") if options.has("compression-codec") else "none"
    settings["compression.type"] = codec or "gzip"
    settings.setdefault("client.id", "console-producer")
    for name, option in _OPTIONS_OF_SETTINGS.items():
        if options.has(option) or name not in settings:
            settings[name] = str(options.value(option))
    if options.has("max-partition-memory-bytes"):
        settings["batch.size"] = str(options.value("max-partition-memory-bytes"))
    return settings


STOP_SECONDS = 3
"""How long Ctrl-C waits for a broker that may be gone."""


async def _produce(topic: str, reader: LineReader, settings: dict[str, str], *, is_sync: bool) -> int:
    known: dict[str, Any] = known_settings(ProducerConfig, settings)
    for name in ("key.serializer", "value.serializer", "partitioner"):
        known.pop(name, None)
    try:
        producer = Producer(known)
    except ConfigError as error:
        raise ToolError(str(error), CONFIG_EXCEPTION) from None
    loop = asyncio.get_running_loop()
    stdin = StandardInput(loop)
    stopped_by: list[int] = []
    task = asyncio.current_task()

    def stop(number: int) -> None:
        stopped_by.append(number)
        stdin.end()
        if task is not None:
            loop.call_later(STOP_SECONDS, task.cancel)

    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop, int(number))
        except (RuntimeError, ValueError):
            break  # not the main thread: signals belong to another thread
    try:
        async with producer:
            lines = Lines()
            while (data := await stdin.read()) is not None:
                for line in lines.feed(data):
                    record = InputRecord(None, line, ()) if reader.is_plain and line.isascii() else reader.read(line)
                    await _send(producer, topic, record, is_sync=is_sync)
                if not data:
                    break
                await producer.room()
    except asyncio.CancelledError:
        if not stopped_by:
            raise
    return 128 + stopped_by[0] if stopped_by else 0


async def _send(producer: Producer, topic: str, record: InputRecord, *, is_sync: bool) -> None:
    key, value, headers = record
    try:
        delivery = producer.send(topic, value, key, headers)
        if is_sync:
            await delivery
            return
    except KafkaError as error:
        if is_sync:
            raise execution_failure(error) from None
        _tell_failure(topic, record, error)
        return
    delivery.add_done_callback(partial(_check_delivery, topic, record))


def _check_delivery(topic: str, record: InputRecord, delivery: Delivery) -> None:
    error = delivery.exception()
    if error is not None:
        _tell_failure(topic, record, error)


def _tell_failure(topic: str, record: InputRecord, error: KafkaError) -> None:
    key = "null" if record.key is None else f"{len(record.key)} bytes"
    value = "null" if record.value is None else f"{len(record.value)} bytes"
    log(
        "ERROR",
        f"Error when sending message to topic {topic} with key: {key}, value: {value} with error:",
        ERROR_LOGGER,
    )
    print(java_text(error), file=sys.stderr, flush=True)


class StandardInput:
    """Stdin, read by a thread: it may be a file, a pipe or a terminal, and its end may never come."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._may_read = threading.Semaphore(2)
        self._has_prompt = sys.stdin.isatty() and sys.stdout.isatty()
        threading.Thread(target=self._read_all, name="stdin", daemon=True).start()

    async def read(self) -> bytes | None:
        """What has come; b"" at the end of the input, None when a signal ended it."""
        piece = await self._pieces.get()
        self._may_read.release()
        return piece

    def end(self) -> None:
        self._pieces.put_nowait(None)

    def _read_all(self) -> None:
        data = b"begin"
        while data:
            self._may_read.acquire()
            data = self._read_some()
            try:
                self._loop.call_soon_threadsafe(self._pieces.put_nowait, data)
            except RuntimeError:
                return  # the tool has ended

    def _read_some(self) -> bytes:
        if self._has_prompt:
            print(">", end="", flush=True)
        try:
            number = sys.stdin.fileno()
        except io.UnsupportedOperation:
            return sys.stdin.buffer.read(READ_SIZE)
        # Not through sys.stdin: a thread that waits in it would keep the interpreter from ending.
        return os.read(number, READ_SIZE)
