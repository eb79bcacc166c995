"""`ottla consume`: records to stdout, as text in any format or as JSON; from anywhere to anywhere in a topic."""

from __future__ import annotations

import argparse
import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ottla.cli.output import Progress, from_zero, notice
from ottla.cli.positions import BEGINNING, END, HELP, Position, bounds, position_option, resolve
from ottla.cli.record_format import (
    DEFAULT_FORMAT,
    FormatError,
    Write,
    compile_format,
    json_line,
    terminal_json_line,
    terminal_yaml_item,
    yaml_item,
)
from ottla.cli.session import REGISTRY_URL, CommandError, Session, add_broker_options, command_parser, misuse, run

if TYPE_CHECKING:
    from ottla.cli.registered import RegisteredDecoder
    from ottla.client.consumer import Consumer
    from ottla.client.core.fetching import RawRecord
    from ottla.client.core.partitions import TopicPartition

COMMAND = "ottla consume"
POLL_MS = 200
MAX_POLL_RECORDS = 5_000
Accepts = Callable[["RawRecord"], bool]
EXAMPLES = r"""  ottla consume orders                                  all there is, then what comes, until Ctrl-C
  ottla consume orders -e                               all there is, then end
  ottla consume orders --from -10 -e                    the last 10 of every partition
  ottla consume orders --from '5m ago'                  since then
  ottla consume orders --from 2026-11-16T09:00 --to 2026-11-16T09:05
  ottla consume orders -p 2 --from 1200 -n 1            the record at offset 1200 of partition 2
  ottla consume orders --key alice -e                   only the partition that the key hashes to
  ottla consume orders --grep 'status":"failed' -e -o json
  ottla consume orders -f '%d %p:%o %k %v %h\n'
  ottla consume orders --registry http://127.0.0.1:8081 -e       Avro, Protobuf and registered JSON as JSON; without
                                                        the option if the cluster or OTTLA_REGISTRY names a registry
  ottla consume orders -g billing                       as a member of the group, committing what was printed

format:
  %t topic, %p partition, %o offset, %k key, %v value, %h headers, %T time in ms, %d time as ISO 8601,
  %K and %V lengths of key and value (-1: null), %H number of headers, %% percent; \n \t \r \0 \xHH
  %k{hex} %v{base64} %v{json}: key and value in another encoding
  On a terminal control characters of records are shown as \x1b; pipes and files get the bytes as they are.
"""


def parser() -> argparse.ArgumentParser:
    made = command_parser(
        COMMAND, "Print the records of topics. Without --to, -e or -n it goes on until Ctrl-C.", EXAMPLES
    )
    made.add_argument("topics", nargs="+", metavar="TOPIC")
    made.add_argument("-p", "--partition", metavar="N[,N...]", help="only these partitions")
    made.add_argument("--from", dest="start", type=position_option, metavar="WHERE", help=f"{HELP} (beginning)")
    made.add_argument("--to", dest="stop", type=position_option, metavar="WHERE", help="end before it; the same forms")
    made.add_argument("-e", "--exit", action="store_true", help="end when all that is there now has been read")
    made.add_argument("-n", "--max", type=int, metavar="N", help="end after N records")
    made.add_argument("--key", metavar="KEY", help="only records with this key; reads only the partition it hashes to")
    made.add_argument(
        "--all-partitions",
        action="store_true",
        help="with --key: look in every partition (for topics that have grown, or other partitioners)",
    )
    made.add_argument("--grep", metavar="REGEX", help="only records whose key, value or a header matches")
    made.add_argument("-v", "--invert", action="store_true", help="with --grep: only records that do not match")
    made.add_argument("-f", "--format", metavar="FORMAT", help="see below ('%%v\\n')")
    made.add_argument("-o", "--output", choices=("text", "json", "yaml"), default="text", help="json: one line each")
    made.add_argument("-g", "--group", metavar="GROUP", help="read as a member of this group and commit")
    made.add_argument(
        "--registry",
        metavar="URL",
        help="a schema registry: values and keys of registered schemas (Avro, Protobuf, JSON) are shown as JSON",
    )
    made.add_argument(
        "--decode",
        action=argparse.BooleanOptionalAction,
        help="the same with the registry of the cluster, --command-config or OTTLA_REGISTRY. By itself a record that "
        "names a registered schema is decoded if a registry is known; --no-decode shows bytes as they are",
    )
    made.add_argument(
        "--isolation",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        help="read_committed leaves out transactions that are open or aborted",
    )
    made.add_argument(
        "-X",
        "--property",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the consumer; may be repeated",
    )
    add_broker_options(made)
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    return run(COMMAND, options, lambda session: consume(session, options))


async def consume(session: Session, options: argparse.Namespace) -> int:
    from ottla.client.config import ConsumerConfig
    from ottla.client.consumer import Consumer

    write, accepts = writer(options), acceptor(options)
    if options.max is not None and options.max < 1:
        misuse(COMMAND, "-n is at least 1")
    if options.group and (options.start or options.stop or options.partition or options.key):
        misuse(COMMAND, "-g reads where the group is: --from, --to, -p and --key do not go with it")
    settings: dict[str, Any] = {
        "auto.offset.reset": "earliest",
        "max.poll.records": MAX_POLL_RECORDS,
        "isolation.level": options.isolation,
        "allow.auto.create.topics": "false",
        **session.settings_for(ConsumerConfig),
        **parsed_properties(options.property),
    }
    decoder = registered_decoder(session, options)
    await session.describe_topics(options.topics)
    if options.group:
        async with Consumer({**settings, "group.id": options.group, "enable.auto.commit": "false"}) as consumer:
            consumer.subscribe(options.topics)
            reading = Reading(consumer, write, accepts, options.max, decoder)
            try:
                return await reading.as_member(ends=options.exit)
            finally:
                reading.tell_failures()
    ranges = await wanted_ranges(session, options)
    async with Consumer({"enable.auto.commit": "false", **settings}) as consumer:
        consumer.assign(ranges)
        for partition, (first, _) in ranges.items():
            consumer.seek(partition, first)
        stops = {partition: stop for partition, (_, stop) in ranges.items() if stop is not None}
        reading = Reading(consumer, write, accepts, options.max, decoder)
        total = sum(stop - first for first, stop in ranges.values() if stop is not None) if stops else None
        try:
            await reading.through(stops, total if len(stops) == len(ranges) else None)
        finally:
            reading.tell_failures()
            if options.grep or options.key is not None:
                reading.tell_scanned(len(ranges))
    return 0


def registered_decoder(session: Session, options: argparse.Namespace) -> RegisteredDecoder | None:
    is_asked = bool(options.decode) or options.registry is not None
    if options.decode is False or not (is_asked or REGISTRY_URL in session.target.settings):
        return None
    from ottla.cli.registered import RegisteredDecoder, registry_settings

    return RegisteredDecoder(registry_settings(options.registry, session.target.settings), notice, is_asked=is_asked)


def parsed_properties(given: list[str]) -> dict[str, str]:
    """-X NAME=VALUE ..."""
    from ottla.cli.session import key_value

    try:
        return dict(key_value(one) for one in given)
    except argparse.ArgumentTypeError as error:
        raise CommandError(str(error), 2) from None


# --- what to read


async def wanted_ranges(session: Session, options: argparse.Namespace) -> dict[TopicPartition, tuple[int, int | None]]:
    """The offsets to read of each partition: from the first, up to but without the second (None: for ever)."""
    from ottla.client.core.isolation import IsolationLevel

    partitions = await wanted_partitions(session, options)
    admin = await session.admin()
    within = await bounds(admin, partitions, IsolationLevel[options.isolation.upper()])
    starts = await resolve(admin, options.start or BEGINNING, within)
    stop: Position | None = options.stop or (END if options.exit else None)
    if stop is None:
        return {partition: (starts[partition], None) for partition in partitions}
    stops = await resolve(admin, stop, within)
    # A partition without anything to read is not asked at all.
    ranges: dict[TopicPartition, tuple[int, int | None]] = {
        partition: (starts[partition], stops[partition])
        for partition in partitions
        if stops[partition] > starts[partition]
    }
    return ranges


async def wanted_partitions(session: Session, options: argparse.Namespace) -> list[TopicPartition]:
    from ottla.client.core.partitioner import partition_for_key
    from ottla.client.core.partitions import TopicPartition

    chosen = partition_numbers(options.partition)
    wanted = []
    for name, info in (await session.describe_topics(options.topics)).items():
        numbers = list(range(len(info.partitions)))
        if options.key is not None and chosen is None and not options.all_partitions:
            numbers = [partition_for_key(os.fsencode(options.key), len(numbers))]
        elif chosen is not None:
            missing = [number for number in chosen if number not in numbers]
            if missing:
                raise CommandError(f"{name} has no partition {missing[0]}: {from_zero(len(numbers))}")
            numbers = chosen
        wanted += [TopicPartition(name, number) for number in numbers]
    return wanted


def partition_numbers(text: str | None) -> list[int] | None:
    """`3`, `0,2,5` or `0-4`."""
    if text is None:
        return None
    numbers: dict[int, None] = {}
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            misuse(COMMAND, f"-p {text}: it is a partition's number, or several as in 0,2,5 or 0-4")
        numbers.update(dict.fromkeys(range(int(first), int(last or first) + 1)))
    return list(numbers)


def writer(options: argparse.Namespace) -> Write:
    """The function that writes records to stdout: unchanged into a pipe or a file, with control characters escaped on a
    terminal."""
    is_terminal = sys.stdout.isatty()
    if options.output != "text":
        if options.format:
            misuse(COMMAND, "-f is for text: it does not go with -o")
        if is_terminal:
            return terminal_json_line if options.output == "json" else terminal_yaml_item
        return json_line if options.output == "json" else yaml_item
    try:
        return compile_format(options.format or DEFAULT_FORMAT, is_terminal=is_terminal)
    except FormatError as error:
        misuse(COMMAND, f"-f '{options.format}': {error}")


def acceptor(options: argparse.Namespace) -> Accepts | None:
    """Which records are wanted; None if all are."""
    checks: list[Accepts] = []
    if options.key is not None:
        key = os.fsencode(options.key)
        checks.append(lambda record: record.key == key)
    if options.grep is not None:
        import re

        try:
            search = re.compile(os.fsencode(options.grep)).search
        except re.error as error:
            misuse(COMMAND, f"--grep '{options.grep}': {error}")
        checks.append(lambda record: matches(search, record) is not options.invert)
    if not checks:
        return None
    return checks[0] if len(checks) == 1 else lambda record: all(check(record) for check in checks)


def matches(search: Callable[[bytes], object], record: RawRecord) -> bool:
    """Whether a regular expression finds something in a record's value, key or headers."""
    if record.value is not None and search(record.value):
        return True
    if record.key is not None and search(record.key):
        return True
    return any(search(name.encode() + b"=" + (value or b"")) for name, value in record.headers)


# --- reading


class Reading:
    """Takes records from a consumer, keeps those that are wanted and writes them, until it is enough."""

    def __init__(
        self,
        consumer: Consumer[Any, Any],
        write: Write,
        accepts: Accepts | None,
        max_count: int | None,
        decoder: RegisteredDecoder | None = None,
    ) -> None:
        self._decoder = decoder
        self._consumer = consumer
        self._write = write
        self._accepts = accepts
        self._left = max_count
        self._scanned = self._written = 0
        self._progress = Progress("reading", is_wanted=False)
        self._stdout = sys.stdout.buffer
        self._watch = select.poll()
        with suppress(OSError, ValueError):
            self._watch.register(sys.stdout.fileno(), 0)

    async def through(self, stops: dict[TopicPartition, int], total: int | None) -> None:
        """Up to these offsets; for ever where none is given."""
        consumer = self._consumer
        is_endless = len(stops) < len(consumer.assignment())
        # Records on the terminal show progress enough; a bar is shown if they go elsewhere, or if no record passes.
        is_wanted = not sys.stdout.isatty() or self._accepts is not None
        with Progress("reading", total, is_wanted=is_wanted) as progress:
            self._progress = progress
            while consumer.assignment() and self._left != 0:
                records = await consumer.poll(POLL_MS)
                progress.note(len(records))
                self._take([record for record in records if _is_before(stops, record)] if stops else records)
                for partition, stop in list(stops.items()):
                    if await consumer.position(partition) >= stop:
                        del stops[partition]
                        consumer.pause([partition])
                if not stops and not is_endless:
                    return

    async def as_member(self, *, ends: bool) -> int:
        """As the group assigns, committing what was written; `ends` stops at what is there when it is assigned."""
        consumer = self._consumer
        stops: dict[TopicPartition, int] = {}
        while self._left != 0:
            records = await consumer.poll(POLL_MS, max_records=self._left)
            self._take(records)
            if records:
                await consumer.commit()
            if ends and (assigned := consumer.assignment()):
                fresh = [partition for partition in sorted(assigned) if partition not in stops]
                if fresh:
                    stops |= await consumer.end_offsets(fresh)
                if all([await consumer.position(partition) >= stops[partition] for partition in sorted(assigned)]):
                    return 0
        return 0

    def _take(self, records: list[RawRecord]) -> None:
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in self._watch.poll(0)):
            # The reader of `| head` has ended; the next write, which would show it, may be hours away.
            raise BrokenPipeError
        self._scanned += len(records)
        if self._accepts is None and self._left is not None:
            # records that are not shown are not decoded, and their failures not counted
            records = records[: self._left]
        if self._decoder is not None and records:
            records = self._decoder.decode(records)
        if self._accepts is not None:
            records = [record for record in records if self._accepts(record)]
        if self._left is not None:
            records = records[: self._left]
            self._left -= len(records)
        if records:
            self._progress.hide()
            self._written += len(records)
            self._stdout.write(b"".join(map(self._write, records)))
            self._stdout.flush()

    def tell_failures(self) -> None:
        if self._decoder is not None:
            self._decoder.tell_rest()

    def tell_scanned(self, partition_count: int) -> None:
        """A search reports how much it has looked at: only then does "nothing found" mean something."""
        partitions = "1 partition" if partition_count == 1 else f"{partition_count} partitions"
        notice(f"{self._written:,} of {self._scanned:,} records matched, in {partitions}")


def _is_before(stops: dict[TopicPartition, int], record: RawRecord) -> bool:
    from ottla.client.core.partitions import TopicPartition

    stop = stops.get(TopicPartition(record.topic, record.partition))
    return stop is None or record.offset < stop
