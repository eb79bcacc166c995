"""kafka-consumer-perf-test: how many records a second a consumer reads."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from random import SystemRandom
from typing import Any

from ottla.cli.kafka.connection import read_properties
from ottla.cli.kafka.console_consumer import new_consumer
from ottla.cli.kafka.entry import run_async, run_tool
from ottla.cli.kafka.exceptions import java_text, show_warnings
from ottla.cli.kafka.options import (
    INTEGER,
    LONG,
    ArgumentKind,
    Option,
    OptionParser,
    Options,
    ToolError,
    UsageError,
    key_values,
)
from ottla.cli.kafka.performance import MEGABYTE, fixed, ratio, show_metrics
from ottla.client.consumer import Consumer
from ottla.client.errors import KafkaError
from ottla.client.metadata import TopicPartition

POLL_MS = 100
COLUMNS = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
MORE_COLUMNS = "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
_DATE_PARTS = re.compile(r"'((?:[^']|'')*)'|y+|M+|d+|H+|h+|m+|s+|S+|E+|a+|[^A-Za-z']+|[A-Za-z]")


def _interval(text: str) -> int:
    if not re.fullmatch(r"\d+", text):
        raise ValueError(text)
    return int(text)


INTERVAL = ArgumentKind("Long", _interval)
PARSER = OptionParser(
    Option("bootstrap-server", "REQUIRED: where the cluster is found.", "server to connect to"),
    Option("topic", "The topic to read.", "topic"),
    Option("include", "The topics to read, as a regular expression.", "Java regex (String)"),
    Option("group", "The group to read in; by default perf-consumer-<number>.", "gid"),
    Option("fetch-size", "max.partition.fetch.bytes", "size", kind=INTEGER, default=1_048_576),
    Option("command-property", "A setting of the consumer, key=value; may be repeated.", "prop1=val1"),
    Option("from-latest", "Begin with the newest record if the group has no offset yet, not with the oldest."),
    Option("socket-buffer-size", "receive.buffer.bytes", "size", kind=INTEGER, default=2_097_152),
    Option("consumer.config", "(DEPRECATED) See --command-config.", "config file"),
    Option("command-config", "A properties file for the consumer.", "config file"),
    Option("print-metrics", "Show the consumer's figures at the end."),
    Option("show-detailed-stats", "Show figures every --reporting-interval."),
    Option(
        "timeout",
        "End when no record has come for so long.",
        "milliseconds",
        kind=LONG,
        default=10_000,
        is_argument_optional=True,
    ),
    Option("messages", "(DEPRECATED) See --num-records.", "count", kind=LONG),
    Option("num-records", "REQUIRED: how many records to read.", "count", kind=LONG),
    Option(
        "reporting-interval",
        "How often figures are shown.",
        "interval_ms",
        kind=INTERVAL,
        default=5_000,
    ),
    Option(
        "date-format",
        "How times are shown: a pattern of Java's SimpleDateFormat.",
        "date format",
        default="yyyy-MM-dd HH:mm:ss:SSS",
    ),
    Option("hide-header", "Leave the names of the columns out."),
)


def main(arguments: list[str]) -> int:
    return run_tool(PARSER, arguments, _run)


def _run(options: Options) -> int:
    options.help_or_version("This tool is used to verify the consumer performance.")
    options.require("bootstrap-server")
    for one, other in (("topic", "include"), ("messages", "num-records")):
        if options.has(one) == options.has(other):
            raise UsageError(f"Exactly one of the following arguments is required: [{one}], [{other}]")
    options.forbid("consumer.config", "command-config")
    for old, new in (("messages", "num-records"), ("consumer.config", "command-config")):
        if options.has(old):
            print(f"Warning: --{old} is deprecated. Use --{new} instead.")
    show_warnings()
    try:
        return run_async(measure(options))
    except ToolError as error:
        sys.stderr.write(f"{error.message}\n{error.trace}\n")
    except KafkaError as error:
        sys.stderr.write(f"{java_text(error).partition(': ')[2]}\n{java_text(error)}\n\n")
    return 1


def _settings(options: Options) -> dict[str, str]:
    config = options.value("consumer.config") or options.value("command-config")
    settings = read_properties(config) if config else {}
    settings.update(key_values(options.values("command-property")))
    settings |= {
        "bootstrap.servers": options.value("bootstrap-server"),
        "group.id": options.value("group") or f"perf-consumer-{SystemRandom().randrange(100_000)}",
        "receive.buffer.bytes": str(options.value("socket-buffer-size")),
        "max.partition.fetch.bytes": str(options.value("fetch-size")),
        "auto.offset.reset": "latest" if options.has("from-latest") else "earliest",
        "check.crcs": "false",
    }
    settings.setdefault("client.id", "perf-consumer-client")
    return settings


@dataclass(slots=True)
class Joining:
    """How long the consumer was without partitions: the time of its rebalances."""

    began_at_ms: int
    total_ms: int = 0
    since_report_ms: int = 0
    assigned: set[TopicPartition] = field(default_factory=set)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.assigned.difference_update(partitions)
        if not self.assigned:
            self.began_at_ms = _now_ms()

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        if not self.assigned:
            elapsed_ms = _now_ms() - self.began_at_ms
            self.total_ms += elapsed_ms
            self.since_report_ms += elapsed_ms
        self.assigned.update(partitions)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.on_partitions_revoked(partitions)


@dataclass(slots=True)
class Read:
    """What was read so far."""

    record_count: int = 0
    byte_count: int = 0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def measure(options: Options) -> int:
    is_detailed = options.has("show-detailed-stats")
    settings = _settings(options)
    if not options.has("hide-header"):
        print(f"{'time, threadId' if is_detailed else 'start.time, end.time'}, {COLUMNS}, {MORE_COLUMNS}", flush=True)
    if options.value("reporting-interval") <= 0:
        raise ToolError("Reporting interval must be greater than 0.")
    async with new_consumer(settings) as consumer:
        start_ms = _now_ms()
        joining = Joining(start_ms)
        read = await _consume(consumer, options, joining)
        end_ms = _now_ms()
        if not is_detailed:
            _show_total(options.value("date-format"), start_ms, end_ms, joining.total_ms, read)
        if options.has("print-metrics"):
            seconds = (end_ms - start_ms) / 1000
            show_metrics(
                "consumer-fetch-manager-metrics",
                settings["client.id"],
                {
                    "records-consumed-total": float(read.record_count),
                    "records-consumed-rate": ratio(read.record_count, seconds),
                    "bytes-consumed-total": float(read.byte_count),
                    "bytes-consumed-rate": ratio(read.byte_count, seconds),
                },
            )
    return 0


async def _consume(consumer: Consumer[Any, Any], options: Options, joining: Joining) -> Read:
    wanted = options.value("messages") if options.has("messages") else options.value("num-records")
    timeout_ms, interval_ms = options.value("timeout"), options.value("reporting-interval")
    if options.has("topic"):
        consumer.subscribe([options.value("topic")], listener=joining)
    else:
        try:
            consumer.subscribe(pattern=re.compile(options.value("include")), listener=joining)
        except re.error as error:
            raise ToolError(str(error), "java.util.regex.PatternSyntaxException") from None
    read, last = Read(), Read()
    now_ms = reported_at_ms = consumed_at_ms = _now_ms()
    while read.record_count < wanted and now_ms - consumed_at_ms <= timeout_ms:
        records = await consumer.poll(POLL_MS)
        now_ms = _now_ms()
        if not records:
            continue
        consumed_at_ms = now_ms
        read.record_count += len(records)
        for record in records:
            if record.value is not None:
                read.byte_count += len(record.value)
            if record.key is not None:
                read.byte_count += len(record.key)
        if now_ms - reported_at_ms >= interval_ms:
            if options.has("show-detailed-stats"):
                _show_progress(
                    options.value("date-format"), reported_at_ms, now_ms, joining.since_report_ms, read, last
                )
            joining.since_report_ms = 0
            reported_at_ms = now_ms
            last = Read(read.record_count, read.byte_count)
    if read.record_count < wanted:
        print(
            f"WARNING: Exiting before consuming the expected number of records: timeout ({timeout_ms} ms) exceeded. "
            "You can use the --timeout option to increase the timeout."
        )
    return read


def _show_total(date_format: str, start_ms: int, end_ms: int, join_ms: int, read: Read) -> None:
    seconds = (end_ms - start_ms) / 1000
    fetch_ms = end_ms - start_ms - join_ms
    megabytes = read.byte_count / MEGABYTE
    print(
        f"{format_date(date_format, start_ms)}, {format_date(date_format, end_ms)}, {fixed(megabytes, 4)}, "
        f"{fixed(ratio(megabytes, seconds), 4)}, {read.record_count}, {fixed(ratio(read.record_count, seconds), 4)}, "
        f"{join_ms}, {fetch_ms}, {fixed(ratio(megabytes, fetch_ms / 1000), 4)}, "
        f"{fixed(ratio(read.record_count, fetch_ms / 1000), 4)}",
        flush=True,
    )


def _show_progress(date_format: str, start_ms: int, end_ms: int, join_ms: int, read: Read, last: Read) -> None:
    elapsed_ms = end_ms - start_ms
    fetch_ms = elapsed_ms - join_ms
    megabytes = (read.byte_count - last.byte_count) / MEGABYTE
    count = read.record_count - last.record_count
    fetch_megabytes, fetch_count = (
        (1000.0 * megabytes / fetch_ms, 1000.0 * count / fetch_ms) if fetch_ms > 0 else (0.0, 0.0)
    )
    print(
        f"{format_date(date_format, end_ms)}, 0, {fixed(read.byte_count / MEGABYTE, 4)}, "
        f"{fixed(ratio(1000.0 * megabytes, elapsed_ms), 4)}, {read.record_count}, "
        f"{fixed(ratio(1000.0 * count, elapsed_ms), 4)}, {join_ms}, {fetch_ms}, {fixed(fetch_megabytes, 4)}, "
        f"{fixed(fetch_count, 4)}",
        flush=True,
    )


def format_date(pattern: str, at_ms: int) -> str:
    """A moment in local time, by a pattern of Java's SimpleDateFormat."""
    moment = datetime.fromtimestamp(at_ms / 1000)
    values = {
        "M": moment.month,
        "d": moment.day,
        "H": moment.hour,
        "h": (moment.hour + 11) % 12 + 1,
        "m": moment.minute,
        "s": moment.second,
        "S": at_ms % 1000,
    }
    shown = ""
    for part in _DATE_PARTS.finditer(pattern):
        text, letter = part.group(), part.group()[0]
        if letter == "'":
            shown += text[1:-1].replace("''", "'") or "'"
        elif letter == "y":
            shown += f"{moment.year % 100:02d}" if len(text) == 2 else f"{moment.year:0{len(text)}d}"
        elif letter == "E" or (letter == "M" and len(text) > 2):
            shown += moment.strftime(
                ("%A" if len(text) > 3 else "%a") if letter == "E" else "%B" if len(text) > 3 else "%b"
            )
        elif letter == "a":
            shown += "AM" if moment.hour < 12 else "PM"
        elif letter in values:
            shown += f"{values[letter]:0{len(text)}d}"
        elif letter.isalpha():
            raise ToolError(f"Illegal pattern character '{letter}'")
        else:
            shown += text
    return shown
