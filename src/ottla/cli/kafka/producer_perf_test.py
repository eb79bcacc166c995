"""kafka-producer-perf-test: how many records a second a producer writes, and how long each takes."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

from ottla.cli.kafka.connection import CONFIG_EXCEPTION, check_addresses, known_settings, read_properties
from ottla.cli.kafka.entry import run_async
from ottla.cli.kafka.exceptions import java_text, show_warnings
from ottla.cli.kafka.options import DOUBLE, INTEGER, LONG, ToolError
from ottla.cli.kafka.performance import Latencies, show_metrics
from ottla.cli.kafka.subcommands import Argument, ArgumentError, CommandParser, Exclusive, HelpWanted
from ottla.client.config import ProducerConfig
from ottla.client.errors import ConfigError, KafkaError
from ottla.client.producer import Producer

DEFAULT_TRANSACTION_MS = 3000
TURN = 200
"""So many records are sent before the producer's own work gets its turn."""
SHORTEST_SLEEP_SECONDS = 0.002
_LETTERS = bytes(65 + number % 26 for number in range(256))
PARSER = CommandParser(
    "kafka-producer-perf-test",
    "Measures a producer. With --transactional-id, or transactional.id among the properties, or "
    "--transaction-duration-ms it writes in transactions.",
    [
        Argument(("--bootstrap-server",), "Where the cluster is found.", metavar="BOOTSTRAP-SERVER"),
        Argument(("--topic",), "The topic to write to.", metavar="TOPIC", is_required=True),
        Argument(("--num-records",), "How many records.", metavar="NUM-RECORDS", kind=LONG, is_required=True),
        Argument(
            ("--payload-delimiter",),
            "What separates the payloads of --payload-file; by default a line's end.",
            metavar="PAYLOAD-DELIMITER",
            default="\\n",
        ),
        Argument(
            ("--throughput",),
            "About so many records a second and no more; -1: as many as it can.",
            metavar="THROUGHPUT",
            kind=DOUBLE,
            is_required=True,
        ),
        Argument(
            ("--producer-props",),
            "(DEPRECATED) See --command-property.",
            metavar="PROP-NAME=PROP-VALUE",
            is_repeated=True,
        ),
        Argument(
            ("--command-property",),
            "Settings of the producer: linger.ms=10 batch.size=32768. They win over --command-config.",
            metavar="PROP-NAME=PROP-VALUE",
            is_repeated=True,
        ),
        Argument(("--producer.config",), "(DEPRECATED) See --command-config.", metavar="CONFIG-FILE"),
        Argument(("--command-config",), "A properties file for the producer.", metavar="CONFIG-FILE"),
        Argument(("--print-metrics",), "Show the producer's figures at the end.", is_flag=True),
        Argument(("--transactional-id",), "Write in transactions, under this id.", metavar="TRANSACTIONAL-ID"),
        Argument(
            ("--transaction-duration-ms",),
            f"When a transaction is committed; by default {DEFAULT_TRANSACTION_MS}.",
            metavar="TRANSACTION-DURATION",
            kind=LONG,
        ),
        Argument(
            ("--warmup-records",),
            "The first so many records do not count for the figures of the steady state.",
            metavar="WARMUP-RECORDS",
            kind=LONG,
            default=0,
        ),
        Argument(
            ("--reporting-interval",), "How often figures are shown.", metavar="INTERVAL-MS", kind=LONG, default=5_000
        ),
    ],
    exclusive=Exclusive(
        [
            Argument(("--record-size",), "Records of so many random bytes.", metavar="RECORD-SIZE", kind=INTEGER),
            Argument(("--payload-file",), "Records from a text file, at random.", metavar="PAYLOAD-FILE"),
            Argument(("--payload-monotonic",), "Records that are the numbers 0, 1, 2, ...", is_flag=True),
        ],
        is_required=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Test:
    """What is to be measured."""

    topic: str
    record_count: int
    warmup_count: int
    throughput: float
    payload: Callable[[int], bytes]
    settings: dict[str, str]
    transaction_ms: int | None
    is_showing_metrics: bool
    reporting_interval_ms: int


def main(arguments: list[str]) -> int:
    try:
        test = make_test(PARSER.parse(_spread(arguments)).values)
    except HelpWanted as wanted:
        PARSER.show_help(wanted)
        return 0
    except ArgumentError as error:
        if not arguments:
            PARSER.show_help(HelpWanted(None))
            return 0
        return PARSER.show_error(error)
    except ToolError as error:
        return _failed(error)
    show_warnings()
    try:
        return run_async(measure(test))
    except ToolError as error:
        return _failed(error)
    except ConfigError as error:
        return _failed(ToolError(str(error), CONFIG_EXCEPTION))
    except KafkaError as error:
        sys.stderr.write(f'Exception in thread "main" {java_text(error)}\n')
        return 1


def _failed(error: ToolError) -> int:
    sys.stdout.flush()
    sys.stderr.write(f'Exception in thread "main" {error.trace}')
    return 1


def _spread(arguments: list[str]) -> list[str]:
    """`--command-property a=1 b=2` as the option given twice."""
    spread: list[str] = []
    option = ""
    for argument in arguments:
        if argument.startswith("--"):
            option = argument if argument in ("--producer-props", "--command-property") else ""
            is_first = True
        elif option and not is_first:
            spread.append(option)
        else:
            is_first = False
        spread.append(argument)
    return spread


def make_test(values: dict[str, Any]) -> Test:
    """Check the arguments, in the order in which the original complains."""
    count, warmup, size = values["num_records"], max(values["warmup_records"], 0), values["record_size"]
    properties, old_properties = values["command_property"], values["producer_props"]
    config, old_config = values["command_config"], values["producer.config"]
    duration_ms = values["transaction_duration_ms"]
    problems = {
        "--num-records should be greater than zero.": count <= 0,
        "The value for --warmup-records must be strictly fewer than the number of records in the test, "
        "--num-records.": warmup >= count,
        "--record-size should be greater than zero.": size is not None and size <= 0,
        "At least one of --bootstrap-server, --command-property, --producer-props, --producer.config or "
        "--command-config must be specified.": not any(
            (values["bootstrap_server"], properties, old_properties, config, old_config)
        ),
        "--command-property and --producer-props cannot be specified together.": properties and old_properties,
        "--command-config and --producer.config cannot be specified together.": config and old_config,
        "--transaction-duration-ms should be greater than zero.": duration_ms is not None and duration_ms <= 0,
        "--reporting-interval should be greater than zero.": values["reporting_interval"] <= 0,
    }
    for message, is_so in problems.items():
        if is_so:
            raise ArgumentError(message)
    payload = _payload(values)
    for old, option, new in (
        (old_properties, "--producer-props", "--command-property"),
        (old_config, "--producer.config", "--command-config"),
    ):
        if old:
            print(f"Option {option} has been deprecated and will be removed in a future version. Use {new} instead.")
    settings = _settings(properties or old_properties, config or old_config)
    if values["bootstrap_server"]:
        settings["bootstrap.servers"] = values["bootstrap_server"]
    is_transactional = duration_ms or values["transactional_id"] or "transactional.id" in settings
    if is_transactional:
        made_up = "performance-producer-" + urlsafe_b64encode(SystemRandom().randbytes(16)).decode().rstrip("=")
        settings["transactional.id"] = values["transactional_id"] or settings.get("transactional.id", made_up)
    return Test(
        values["topic"],
        count,
        warmup,
        values["throughput"],
        payload,
        settings,
        (duration_ms or DEFAULT_TRANSACTION_MS) if is_transactional else None,
        values["print_metrics"],
        values["reporting_interval"],
    )


def _settings(properties: list[str], config: str | None) -> dict[str, str]:
    settings = read_properties(config) if config else {}
    for one in properties:
        pieces = one.split("=")
        if len(pieces) != 2 or not pieces[1]:
            raise ToolError(f"Invalid property: {one}")
        settings[pieces[0]] = pieces[1]
    settings.setdefault("client.id", "perf-producer-client")
    return settings


def _payload(values: dict[str, Any]) -> Callable[[int], bytes]:
    """What makes the value of record number n."""
    random = Random(0)
    if values["payload_file"] is not None:
        payloads = _read_payloads(Path(values["payload_file"]), values["payload_delimiter"])
        return lambda _: random.choice(payloads)
    if values["payload_monotonic"]:
        return lambda number: b"%d" % number
    size: int = values["record_size"]
    return lambda _: random.randbytes(size).translate(_LETTERS)


def _read_payloads(path: Path, delimiter: str) -> list[bytes]:
    print(f"Reading payloads from: {path.absolute()}")
    if not path.exists() or path.stat().st_size == 0:
        raise ToolError("File does not exist or empty file provided.")
    pieces = re.split("\n" if delimiter == "\\n" else delimiter, path.read_text(encoding="utf-8"))
    if not pieces[-1]:
        pieces.pop()
    print(f"Number of records read: {len(pieces)}")
    return [piece.encode() for piece in pieces]


async def measure(test: Test) -> int:
    """Write the records and show the figures."""
    known = known_settings(ProducerConfig, test.settings)
    for name in ("key.serializer", "value.serializer", "partitioner"):
        known.pop(name, None)
    if "bootstrap.servers" in known:
        check_addresses(known["bootstrap.servers"])
    producer = Producer(known)
    if test.warmup_count:
        print(
            f"Warmup first {test.warmup_count} records. "
            "Steady state results will print after the complete test summary."
        )
    async with producer:
        if test.transaction_ms is not None:
            await producer.init_transactions()
        run = Run(test, producer)
        await run.send_all()
        await producer.flush()
    run.show()
    return 0


class Run:
    """The records on their way, and what became of them."""

    def __init__(self, test: Test, producer: Producer) -> None:
        self._test = test
        self._producer = producer
        self._all = Latencies(test.record_count, test.reporting_interval_ms)
        self._steady: Latencies | None = None
        self._transaction_at_ms: float | None = None

    async def send_all(self) -> None:
        test, clock = self._test, time.time
        started_at = clock()
        for number in range(test.record_count):
            payload = test.payload(number)
            if test.transaction_ms is not None and self._transaction_at_ms is None:
                await self._producer.begin_transaction()
                self._transaction_at_ms = clock() * 1000
            if test.warmup_count and number == test.warmup_count:
                self._steady = Latencies(
                    test.record_count - test.warmup_count, test.reporting_interval_ms, is_steady_state=True
                )
                self._all.is_silent = True
            sent_at_ms = clock() * 1000
            self._send(payload, sent_at_ms)
            if test.transaction_ms is not None and sent_at_ms - (self._transaction_at_ms or 0) >= test.transaction_ms:
                await self._end_transaction()
            if test.throughput >= 0:
                await self._keep_to(test.throughput, number + 1, clock() - started_at)
            if number % TURN == TURN - 1:
                await self._producer.room()
                await asyncio.sleep(0)
        if self._transaction_at_ms is not None:
            await self._end_transaction()

    def _send(self, payload: bytes, sent_at_ms: float) -> None:
        latencies, size = (self._all, self._steady), len(payload)

        def done(delivery: Any) -> None:
            error = delivery.exception()
            if error is not None:
                print(java_text(error), file=sys.stderr)
                return
            now_ms = time.time() * 1000
            for one in latencies:
                if one is not None:
                    one.record(int(now_ms - sent_at_ms), size, now_ms)

        try:
            self._producer.send(self._test.topic, payload).add_done_callback(done)
        except KafkaError as error:
            print(java_text(error), file=sys.stderr)

    async def _end_transaction(self) -> None:
        await self._producer.commit_transaction()
        self._transaction_at_ms = None

    async def _keep_to(self, throughput: float, count: int, elapsed_seconds: float) -> None:
        """Wait until so many records are no more than the throughput allows; 0 waits for ever."""
        if throughput == 0:
            await asyncio.Event().wait()
        ahead = count / throughput - elapsed_seconds
        if ahead >= SHORTEST_SLEEP_SECONDS:
            await asyncio.sleep(ahead)

    def show(self) -> None:
        self._all.show_total()
        if self._steady is not None:
            self._steady.show_total()
        if self._test.is_showing_metrics:
            total = self._all
            show_metrics(
                "producer-metrics",
                self._test.settings["client.id"],
                {
                    "record-send-total": float(total.count),
                    "record-error-total": float(self._test.record_count - total.count),
                    "record-size-avg": total.byte_count / total.count if total.count else float("nan"),
                    "request-latency-avg": total.total_ms / total.count if total.count else float("nan"),
                    "request-latency-max": float(total.max_ms),
                },
            )
