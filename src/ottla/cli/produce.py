"""`ottla produce`: lines or JSON of stdin or of a file become records."""

from __future__ import annotations

import argparse
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, BinaryIO

from ottla.cli.output import Progress, counted, notice
from ottla.cli.record_format import FormatError, GivenRecord, parse_json_record, unescape
from ottla.cli.session import (
    CommandError,
    Session,
    add_broker_options,
    command_parser,
    explained,
    key_value,
    misuse,
    run,
)

if TYPE_CHECKING:
    import asyncio

    from ottla.cli.registered import RegisteredEncoder
    from ottla.client.delivery import Delivery
    from ottla.client.errors import KafkaError
    from ottla.client.producer import Producer

COMMAND = "ottla produce"
READ_BYTES = 1024 * 1024
MAX_LINE_BYTES = 256 * 1024 * 1024
MAX_BLOCK_MS = 15_000
BATCH_BYTES = 128 * 1024
SHOWN_ERRORS = 5
SENDS_PER_LOOK = 500
EXAMPLES = r"""  echo hello | ottla produce greetings
  ottla produce orders -m '{"item": "apple"}' -k alice
  ottla produce orders < orders.txt                     a record per line
  ottla produce orders --key-separator : < pairs.txt    lines such as alice:one apple
  ottla produce orders --file orders.txt -z zstd --acks 1
  ottla produce orders -H source=shop -H trace=17 < orders.txt
  ottla consume orders -e -o json | ottla produce copy --json
  ottla produce orders --registry http://127.0.0.1:8081 < orders.json    as Avro, Protobuf or registered JSON
  ottla produce orders --schema order.avsc < orders.json    the file becomes a version of orders-value, unless it is one
  ottla produce users -k alice --null                   a tombstone: alice is deleted when the topic is compacted

json lines:
  {"key": "alice", "value": "one apple", "partition": 2, "timestamp": 1700000000000,
   "headers": [{"name": "source", "value": "shop"}]}
  Only value is required; "value": null is a tombstone. value_base64 and key_base64 in place of value and key take
  bytes; a value that is no text is sent as JSON. headers may be an object, {"source": "shop"}. topic and offset, which
  'consume -o json' prints, are ignored. Any other field is an error, and nothing after that line is sent.
"""


class LineError(CommandError):
    """Why a line cannot become a record. The lines before it are written."""


def parser() -> argparse.ArgumentParser:
    made = command_parser(COMMAND, "Write records to a topic: lines or JSON, of stdin or of a file.", EXAMPLES)
    made.add_argument("topic", metavar="TOPIC")
    made.add_argument("-m", "--message", action="append", metavar="TEXT", help="a record's value; may be repeated")
    made.add_argument("--null", action="store_true", help="one record whose value is null")
    made.add_argument("--file", metavar="FILE", help="read this instead of stdin")
    made.add_argument(
        "--json", action="store_true", help="every line (or -m) is a JSON object, as 'consume -o json' prints it"
    )
    made.add_argument(
        "--repartition", action="store_true", help="with --json: leave out 'partition', so that the key chooses it"
    )
    made.add_argument(
        "--registry",
        metavar="URL",
        help="a schema registry: values are JSON text, written with the newest schema of TOPIC-value; what does not "
        "fit an Avro or Protobuf schema is refused, JSON is not compared with its schema",
    )
    made.add_argument(
        "--encode",
        action="store_true",
        help="the same with the registry of the cluster, --command-config or OTTLA_REGISTRY",
    )
    made.add_argument(
        "--schema",
        metavar="FILE|SUBJECT",
        help="the same with this schema: a file (.avsc, .json, .proto), which is registered for TOPIC-value if it is "
        "not there, or the newest of another subject",
    )
    made.add_argument("-k", "--key", metavar="KEY", help="the key of every record")
    made.add_argument(
        "--key-separator",
        type=separator,
        metavar="TEXT",
        help=r"what stands before it in a line is the key; \t is a tab",
    )
    made.add_argument(
        "-H", "--header", type=key_value, action="append", default=[], metavar="NAME=VALUE", help="may be repeated"
    )
    made.add_argument("-p", "--partition", type=int, metavar="N", help="the partition of every record")
    made.add_argument(
        "-z", "--compression", choices=("none", "gzip", "snappy", "lz4", "zstd"), help="how batches are compressed"
    )
    made.add_argument(
        "--acks", choices=("all", "1", "0"), help="what counts as written: all replicas in sync (default), the leader"
    )
    made.add_argument(
        "-X",
        "--property",
        type=key_value,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the producer; may be repeated",
    )
    made.add_argument("-q", "--quiet", action="store_true", help="do not say how many records were written")
    add_broker_options(made)
    return made


def separator(text: str) -> bytes:
    """--key-separator, for argparse."""
    try:
        found = unescape(text)
    except FormatError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not found:
        raise argparse.ArgumentTypeError("it is empty")
    return found


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    return run(COMMAND, options, lambda session: produce(session, options))


async def produce(session: Session, options: argparse.Namespace) -> int:
    from ottla.client.config import ProducerConfig
    from ottla.client.producer import Producer

    refuse_contradictions(options)
    settings: dict[str, Any] = {
        "max.block.ms": MAX_BLOCK_MS,
        "batch.size": BATCH_BYTES,
        **session.settings_for(ProducerConfig),
        **dict(options.property),
    }
    if options.compression:
        settings["compression.type"] = options.compression
    if options.acks:
        settings["acks"] = options.acks
    # Reaching the cluster is tried once, and a topic is looked for first: a typing error should not create one
    # when the broker creates topics by itself, unless nothing is like it.
    await existing_topic(session, options.topic)
    encoder = registered_encoder(session, options)
    async with Producer(settings) as producer:
        sending = Sending(producer, options.topic)
        try:
            if options.message or options.null:
                send_messages(sending, options, encoder)
            else:
                await send_lines(sending, options, encoder)
        except LineError as error:
            await producer.flush()
            raise CommandError(f"{error}\n  {sending.written_before()}") from None
        await producer.flush()
        return sending.tell(options.quiet)


def registered_encoder(session: Session, options: argparse.Namespace) -> RegisteredEncoder | None:
    if not options.encode and options.registry is None and options.schema is None:
        return None
    from ottla.cli.registered import RegisteredEncoder, registry_settings

    settings = registry_settings(options.registry, session.target.settings)
    return RegisteredEncoder(settings, options.topic, options.schema)


def refuse_contradictions(options: argparse.Namespace) -> None:
    """Options that would be ignored without a word."""
    if (options.message or options.null) and options.file:
        misuse(COMMAND, "--file does not go with -m and --null: records come from one place")
    if options.json and options.null:
        misuse(COMMAND, '--null does not go with --json: a tombstone is {"key": "alice", "value": null}')
    if options.json and options.key_separator is not None:
        misuse(COMMAND, "--key-separator does not go with --json: the key is a field of the object")
    if options.key is not None and options.key_separator is not None:
        misuse(COMMAND, "-k does not go with --key-separator: a record has one key")
    if options.repartition and not options.json:
        misuse(COMMAND, "--repartition is for --json: other lines name no partition")


def send_messages(sending: Sending, options: argparse.Namespace, encoder: RegisteredEncoder | None) -> None:
    parsed = line_parser(options, encoder)
    for number, message in enumerate(options.message or [], 1):
        sending.send(parsed(os.fsencode(message), number))
    if options.null:
        sending.send(from_options(options))


async def existing_topic(session: Session, name: str) -> None:
    """The topic, or a topic that the broker will create; refused if its name is nearly that of another."""
    from difflib import get_close_matches

    from ottla.client.errors import UnknownTopicOrPartition

    admin = await session.admin()
    try:
        await admin.describe_topics([name])
    except UnknownTopicOrPartition:
        near = get_close_matches(name, await admin.list_topics(), n=1, cutoff=0.8)
        if near:
            raise CommandError(
                f"there is no topic {name!r}; did you mean {near[0]!r}? If not, create it: ottla topics create {name}"
            ) from None


async def send_lines(sending: Sending, options: argparse.Namespace, encoder: RegisteredEncoder | None) -> None:
    source, size = opened(options)
    parsed = line_parser(options, encoder)
    number = 0
    try:
        with Progress("producing", size, "bytes", is_wanted=not source.isatty()) as progress:
            async for lines in pieces(source):
                for line in lines:
                    number += 1
                    sending.send(parsed(line, number))
                    if not number % SENDS_PER_LOOK:
                        await sending.room()
                progress.note(sum(map(len, lines)) + len(lines))
                await sending.room()
    finally:
        if options.file:
            source.close()


def opened(options: argparse.Namespace) -> tuple[BinaryIO, int | None]:
    """Where lines come from, and how many bytes of them there are, if that is known."""
    if options.file:
        try:
            return open(options.file, "rb"), os.path.getsize(options.file)
        except OSError as error:
            raise CommandError(f"--file {options.file} cannot be read: {error.strerror}") from None
    if sys.stdin.isatty():
        notice(f"every line becomes a record of {options.topic}; Ctrl-D ends")
    return sys.stdin.buffer, None


async def pieces(source: BinaryIO) -> AsyncIterator[list[bytes]]:
    """Whole lines as they come, without their ends."""
    read = reader(source.fileno())
    rest = b""
    while data := await read():
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise LineError(f"a line is longer than {MAX_LINE_BYTES} bytes")
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest]


def reader(descriptor: int) -> Callable[[], asyncio.Future[bytes]]:
    """Reads a file in a thread of its own, so that records go out while a user types. Neither Ctrl-C nor the end of
    the process waits for that thread, as they would for an executor's."""
    import asyncio
    import threading
    from queue import SimpleQueue

    loop = asyncio.get_running_loop()
    asked: SimpleQueue[asyncio.Future[bytes]] = SimpleQueue()

    def answer(future: asyncio.Future[bytes], data: bytes | OSError) -> None:
        if future.done():
            return
        if isinstance(data, bytes):
            future.set_result(data)
        else:
            future.set_exception(data)

    def serve() -> None:
        data: bytes | OSError = b"-"
        while data and isinstance(data, bytes):
            future = asked.get()
            try:
                data = os.read(descriptor, READ_BYTES)
            except OSError as error:
                data = error
            if loop.is_closed():
                return
            loop.call_soon_threadsafe(answer, future, data)

    def read() -> asyncio.Future[bytes]:
        future = loop.create_future()
        asked.put(future)
        return future

    threading.Thread(target=serve, name="stdin", daemon=True).start()
    return read


def line_parser(
    options: argparse.Namespace, encoder: RegisteredEncoder | None = None
) -> Callable[[bytes, int], GivenRecord]:
    """The function that makes a record of a line (or a --message) and its number."""
    what = "message" if options.message else "line"
    parsed = plain_line_parser(options, what)
    if encoder is None:
        return parsed

    def encoded(line: bytes, number: int) -> GivenRecord:
        record = parsed(line, number)
        if record.value is None:
            return record
        try:
            return record._replace(value=encoder.encode(record.value))
        except ValueError as error:
            raise LineError(f"the value of {what} {number} {error}: {_start(line)}") from None

    return encoded


def plain_line_parser(options: argparse.Namespace, what: str) -> Callable[[bytes, int], GivenRecord]:
    given = from_options(options)
    if options.json:
        return lambda line, number: from_json(options, given, line, f"{what} {number}")
    if options.key_separator is None:
        return lambda line, _: given._replace(value=line)
    mark: bytes = options.key_separator

    def parsed(line: bytes, number: int) -> GivenRecord:
        key, found, value = line.partition(mark)
        if not found:
            raise LineError(f"{what} {number} has no {mark.decode()!r} between key and value: {_start(line)}")
        return given._replace(value=value, key=key)

    return parsed


def from_options(options: argparse.Namespace) -> GivenRecord:
    """The parts of every record that options set."""
    return GivenRecord(
        None,
        None if options.key is None else os.fsencode(options.key),
        tuple((name, os.fsencode(text)) for name, text in options.header),
        options.partition,
    )


def from_json(options: argparse.Namespace, given: GivenRecord, line: bytes, place: str) -> GivenRecord:
    """The record of a JSON object; what the options say counts over it."""
    try:
        found = parse_json_record(line)
    except ValueError as error:
        raise LineError(f"{place} {error}: {_start(line)}") from None
    return GivenRecord(
        found.value,
        found.key if given.key is None else given.key,
        found.headers + given.headers,
        given.partition if given.partition is not None or options.repartition else found.partition,
        found.timestamp,
    )


def _start(line: bytes) -> str:
    text = line[:60].decode(errors="replace")
    return text + ("..." if len(line) > 60 else "")


class Sending:
    """Sends records, counts what is written and keeps the first errors."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._sent = self._failed = 0
        self._errors: list[KafkaError] = []
        self._under_way: deque[Delivery] = deque()
        self._last: Delivery | None = None

    def send(self, record: GivenRecord) -> None:
        self._sent += 1
        self._last = self._producer.send(self._topic, *record)
        self._under_way.append(self._last)

    async def room(self) -> None:
        """Wait while the producer's buffer is full, and end the command at the first record that was refused."""
        await self._producer.room()
        under_way = self._under_way
        while under_way and under_way[0].done():
            self._look_at(under_way.popleft())
        if self._failed:
            raise CommandError(self._why())

    def _look_at(self, delivery: Delivery) -> None:
        error = delivery.exception()
        if error is not None:
            self._failed += 1
            if len(self._errors) < SHOWN_ERRORS:
                self._errors.append(error)

    def _why(self) -> str:
        reasons = dict.fromkeys(explained(error) for error in self._errors)
        return f"{self._failed:,} of {self._sent:,} records were not written: " + "; ".join(reasons)

    def written_before(self) -> str:
        """After a flush: records written before an error ended the command."""
        self._look_at_rest()
        written = self._sent - self._failed
        if not written:
            return "nothing was written"
        return f"{counted(written, 'record')} before it {'was' if written == 1 else 'were'} written"

    def _look_at_rest(self) -> None:
        while self._under_way:
            self._look_at(self._under_way.popleft())

    def tell(self, is_quiet: bool) -> int:
        """After a flush: how it went."""
        self._look_at_rest()
        if self._failed:
            raise CommandError(self._why())
        if not is_quiet and sys.stderr.isatty():
            notice(self._where())
        return 0

    def _where(self) -> str:
        place = self._last.result() if self._last is not None and self._sent == 1 else None
        if place is not None and place.offset >= 0:
            return f"written to {place.topic}-{place.partition} at offset {place.offset}"
        return f"{counted(self._sent, 'record')} written to {self._topic}"
