"""kafka-share-consumer-perf-test: how many records a second the members of a share group read."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass, field

from ottla.cli.kafka.connection import read_properties
from ottla.cli.kafka.console_share_consumer import new_share_consumer
from ottla.cli.kafka.consumer_perf_test import INTERVAL, POLL_MS, format_date
from ottla.cli.kafka.entry import run_async, run_tool
from ottla.cli.kafka.exceptions import java_text, show_warnings
from ottla.cli.kafka.options import INTEGER, LONG, Option, OptionParser, Options, ToolError, UsageError, key_values
from ottla.cli.kafka.performance import MEGABYTE, fixed, ratio, show_metrics
from ottla.client.errors import KafkaError

COLUMNS = "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms"
PARSER = OptionParser(
    Option("bootstrap-server", "REQUIRED. Where the cluster is found.", "server to connect to"),
    Option("topic", "REQUIRED: the topic to read.", "topic"),
    Option("group", "The share group to read in.", "gid", default="perf-share-consumer"),
    Option("fetch-size", "max.partition.fetch.bytes; a share consumer does not use it.", "size", kind=INTEGER),
    Option("command-property", "A setting of the share consumers, key=value; may be repeated.", "prop1=val1"),
    Option("socket-buffer-size", "receive.buffer.bytes", "size", kind=INTEGER, default=2_097_152),
    Option("consumer.config", "(DEPRECATED) See --command-config.", "config file"),
    Option("command-config", "A properties file for the share consumers.", "config file"),
    Option("print-metrics", "Show the consumers' figures at the end."),
    Option("show-detailed-stats", "Show figures every --reporting-interval."),
    Option("show-consumer-stats", "Show figures of each share consumer at the end."),
    Option("threads", "How many share consumers read.", "count", kind=INTEGER, default=1),
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
    Option("reporting-interval", "How often figures are shown.", "interval_ms", kind=INTERVAL, default=5_000),
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
    options.help_or_version("This tool is used to verify the share consumer performance.")
    options.require("bootstrap-server", "topic")
    if options.has("messages") == options.has("num-records"):
        raise UsageError("Exactly one of the following arguments is required: [messages], [num-records]")
    options.forbid("consumer.config", "command-config")
    for old, new in (("messages", "num-records"), ("consumer.config", "command-config")):
        if options.has(old):
            print(f"Warning: --{old} is deprecated. Use --{new} instead.")
    show_warnings()
    try:
        return run_async(_measure(options))
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
        "group.id": options.value("group"),
        "receive.buffer.bytes": str(options.value("socket-buffer-size")),
        "check.crcs": "false",
    }
    settings.setdefault("client.id", "perf-share-consumer-client")
    return settings


@dataclass(slots=True)
class Read:
    """What one share consumer has read so far, and at its last report."""

    number: int
    client_id: str
    began_at_ms: int
    ended_at_ms: int = 0
    record_count: int = 0
    byte_count: int = 0


@dataclass(slots=True)
class Totals:
    wanted: int
    consumed_at_ms: int
    record_count: int = 0
    reads: list[Read] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return self.record_count >= self.wanted


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _measure(options: Options) -> int:
    if not options.has("hide-header"):
        print(COLUMNS, flush=True)
    if options.value("threads") < 1:
        raise ToolError("Number of threads must be greater than 0.")
    settings = _settings(options)
    wanted = options.value("messages") if options.has("messages") else options.value("num-records")
    start_ms = _now_ms()
    totals = Totals(wanted, start_ms)
    numbers = range(1, options.value("threads") + 1)
    await asyncio.gather(*(_consume(options, settings, number, totals) for number in numbers))
    if not totals.is_done:
        print(
            "WARNING: Exiting before consuming the expected number of records: timeout "
            f"({options.value('timeout')} ms) exceeded. You can use the --timeout option to increase the timeout."
        )
    end_ms = max(read.ended_at_ms for read in totals.reads)
    date_format = options.value("date-format")
    if options.has("show-consumer-stats"):
        for read in totals.reads:
            row = _row(date_format, start_ms, read.ended_at_ms, read.byte_count, read.record_count)
            print(f"Share consumer {read.number} having client id {read.client_id} consumption metrics- {row}")
    print(_row(date_format, start_ms, end_ms, sum(read.byte_count for read in totals.reads), totals.record_count))
    if options.has("print-metrics"):
        for read in totals.reads:
            seconds = (read.ended_at_ms - start_ms) / 1000
            show_metrics(
                "consumer-share-fetch-manager-metrics",
                read.client_id,
                {
                    "records-consumed-total": float(read.record_count),
                    "records-consumed-rate": ratio(read.record_count, seconds),
                    "bytes-consumed-total": float(read.byte_count),
                    "bytes-consumed-rate": ratio(read.byte_count, seconds),
                },
            )
    return 0


async def _consume(options: Options, settings: dict[str, str], number: int, totals: Totals) -> None:
    own = {**settings, "client.id": f"{settings['client.id']}-{number}"}
    interval_ms, timeout_ms = options.value("reporting-interval"), options.value("timeout")
    date_format = options.value("date-format")
    async with new_share_consumer(own) as consumer:
        consumer.subscribe([options.value("topic")])
        reported_at_ms = _now_ms()
        read = Read(number, own["client.id"], reported_at_ms, reported_at_ms)
        totals.reads.append(read)
        reported_count = reported_bytes = 0
        while not totals.is_done and _now_ms() - totals.consumed_at_ms <= timeout_ms:
            records = await consumer.poll(POLL_MS)
            now_ms = _now_ms()
            if records:
                totals.consumed_at_ms = now_ms
                totals.record_count += len(records)
                read.record_count += len(records)
                for record in records:
                    if record.value is not None:
                        read.byte_count += len(record.value)
                    if record.key is not None:
                        read.byte_count += len(record.key)
            if options.has("show-detailed-stats") and records and now_ms - reported_at_ms >= interval_ms:
                seconds = (now_ms - reported_at_ms) / 1000
                megabytes = (read.byte_count - reported_bytes) / MEGABYTE
                print(
                    f"{format_date(date_format, reported_at_ms)}, {format_date(date_format, now_ms)}, "
                    f"{fixed(read.byte_count / MEGABYTE, 4)}, {fixed(ratio(megabytes, seconds), 4)}, "
                    f"{fixed(ratio(read.record_count - reported_count, seconds), 4)}, {read.record_count}, "
                    f"{now_ms - reported_at_ms} for share consumer {number}",
                    flush=True,
                )
                reported_at_ms, reported_count, reported_bytes = now_ms, read.record_count, read.byte_count
        await consumer.commit_sync()
        read.ended_at_ms = _now_ms()


def _row(date_format: str, start_ms: int, end_ms: int, byte_count: int, record_count: int) -> str:
    seconds = (end_ms - start_ms) / 1000
    megabytes = byte_count / MEGABYTE
    return (
        f"{format_date(date_format, start_ms)}, {format_date(date_format, end_ms)}, {fixed(megabytes, 4)}, "
        f"{fixed(ratio(megabytes, seconds), 4)}, {fixed(ratio(record_count, seconds), 4)}, {record_count}, "
        f"{end_ms - start_ms}"
    )
