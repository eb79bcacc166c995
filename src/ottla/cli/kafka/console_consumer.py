"""kafka-console-consumer: the records of topics on stdout, until there are enough, none come any more, or Ctrl-C."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from dataclasses import dataclass
from random import SystemRandom
from typing import Any

from ottla.cli.kafka.connection import CONFIG_EXCEPTION, known_settings, read_properties
from ottla.cli.kafka.deprecated import in_use, refuse_both
from ottla.cli.kafka.entry import discard_output, run_async, run_tool
from ottla.cli.kafka.exceptions import log, show_warnings
from ottla.cli.kafka.java import hash_order
from ottla.cli.kafka.message_formatters import DEFAULT, Formatter, formatter
from ottla.cli.kafka.options import (
    INTEGER,
    LONG,
    Exit,
    Option,
    OptionParser,
    Options,
    ToolError,
    UsageError,
    key_values,
)
from ottla.client.config import ConsumerConfig
from ottla.client.consumer import Consumer
from ottla.client.core.fetching import ConsumerRecord
from ottla.client.errors import ConfigError, KafkaError
from ottla.wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

FOREVER_MS = 2**31 - 1
TIMEOUT = "org.apache.kafka.common.errors.TimeoutException"
LOGGER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTER_PROPERTIES = """\
 print.timestamp=true|false
 print.key=true|false
 print.offset=true|false
 print.epoch=true|false
 print.partition=true|false
 print.headers=true|false
 print.value=true|false
 key.separator=<text>
 line.separator=<text>
 headers.separator=<text>
 null.literal=<text>
 key.deserializer=<class>
 value.deserializer=<class>
 headers.deserializer=<class>"""
PARSER = OptionParser(
    Option("bootstrap-server", "REQUIRED: where the cluster is found.", argument="server to connect to"),
    Option("topic", "The topic to read.", argument="topic"),
    Option("include", "The topics to read, as a regular expression.", argument="Java regex (String)"),
    Option(
        "partition",
        "Read this partition alone, from its end unless --offset says otherwise.",
        argument="partition",
        kind=INTEGER,
    ),
    Option(
        "offset",
        "Where to begin in the partition: a number, 'earliest' or 'latest'.",
        argument="consume offset",
        default="latest",
    ),
    Option("consumer-property", "(DEPRECATED) See --command-property.", argument="consumer_prop"),
    Option("command-property", "A setting of the consumer, key=value; may be repeated.", argument="consumer_prop"),
    Option("consumer.config", "(DEPRECATED) See --command-config.", argument="config file"),
    Option("command-config", "A properties file for the consumer; [command-property] wins.", argument="config file"),
    Option("formatter", "The class that shows records.", argument="class", default=DEFAULT),
    Option("property", "(DEPRECATED) See --formatter-property.", argument="prop"),
    Option("formatter-property", f"A property of the formatter:\n{FORMATTER_PROPERTIES}", argument="prop"),
    Option(
        "formatter-config", "A properties file for the formatter; [formatter-property] wins.", argument="config file"
    ),
    Option("from-beginning", "Begin with the oldest record if the group has no offset yet."),
    Option("max-messages", "End after so many records.", argument="num_messages", kind=INTEGER),
    Option("timeout-ms", "End when no record has come for so long.", argument="timeout_ms", kind=LONG),
    Option("skip-message-on-error", "Go on after a record that cannot be shown."),
    Option("key-deserializer", "The class that reads keys.", argument="deserializer for keys"),
    Option("value-deserializer", "The class that reads values.", argument="deserializer for values"),
    Option("enable-systest-events", "Say when the consumer has ended."),
    Option(
        "isolation-level",
        "read_committed hides records of transactions that are open or aborted.",
        argument="",
        default="read_uncommitted",
    ),
    Option("group", "The group to read in.", argument="consumer group id"),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be read, and how it is shown."""

    settings: dict[str, str]
    topic: str | None
    include: str | None
    partition: int | None
    offset: int
    max_messages: int | None
    timeout_ms: int | None
    is_skipping_errors: bool
    is_telling_events: bool
    formatter: Formatter


def main(arguments: list[str]) -> int:
    return run_tool(PARSER, arguments, _run)


def _run(options: Options) -> int:
    options.help_or_version("This tool helps to read data from Kafka topics and outputs it to standard output.")
    plan = make_plan(options)
    show_warnings()
    return run_async(consume(plan))


# What was asked for


def make_plan(options: Options) -> Plan:
    """Check the options against each other, in the order in which the original complains."""
    if options.has("topic") == options.has("include"):
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    partition = options.value("partition") if options.has("partition") else None
    if partition is not None:
        if not options.has("topic"):
            raise UsageError("The topic is required when partition is specified.")
        if options.has("from-beginning") and options.has("offset"):
            raise UsageError("Options from-beginning and offset cannot be specified together.")
    elif options.has("offset"):
        raise UsageError("The partition is required when offset is specified.")
    options.require("bootstrap-server")
    refuse_both(options, "consumer-property", "command-property")
    refuse_both(options, "consumer.config", "command-config")
    properties = in_use(options, "consumer-property", "command-property", "Option")
    config = in_use(options, "consumer.config", "command-config", "Option")
    settings = _settings(options, config, properties, partition)
    offset = _offset(options)
    timeout_ms = options.value("timeout-ms")
    show = formatter_of(options)
    return Plan(
        settings,
        options.value("topic"),
        options.value("include"),
        partition,
        offset,
        options.value("max-messages"),
        None if timeout_ms is None or timeout_ms < 0 else timeout_ms,
        options.has("skip-message-on-error"),
        options.has("enable-systest-events"),
        show,
    )


def _settings(options: Options, config: str, properties: str, partition: int | None) -> dict[str, str]:
    of_file = read_properties(options.value(config)) if options.has(config) else {}
    extra = key_values(options.values(properties))
    groups = [options.value("group")] if options.has("group") else []
    groups += [source["group.id"] for source in (of_file, extra) if "group.id" in source]
    distinct = list(dict.fromkeys(groups))
    if len(distinct) > 1:
        detected = ", ".join(f"'{group}'" for group in hash_order(distinct))
        raise UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            f"'--consumer.config') do not match. Detected group ids: {detected}"
        )
    if distinct and partition is not None:
        raise UsageError("Options group and partition cannot be specified together.")
    settings = {**of_file, **extra}
    is_from_beginning = options.has("from-beginning")
    reset = settings.setdefault("auto.offset.reset", "earliest" if is_from_beginning else "latest")
    if is_from_beginning and reset != "earliest":
        sys.stdout.flush()
        print(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option",
            file=sys.stderr,
        )
        raise Exit(1)
    settings["bootstrap.servers"] = options.value("bootstrap-server")
    settings.setdefault("client.id", "console-consumer")
    if options.has("isolation-level") or "isolation.level" not in settings:
        settings["isolation.level"] = options.value("isolation-level")
    if distinct:
        settings["group.id"] = distinct[0]
    else:
        settings["group.id"] = f"console-consumer-{SystemRandom().randrange(100_000)}"
        settings.setdefault("enable.auto.commit", "false")
    return settings


def _offset(options: Options) -> int:
    if not options.has("offset"):
        return EARLIEST_TIMESTAMP if options.has("from-beginning") else LATEST_TIMESTAMP
    text: str = options.value("offset")
    named = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}.get(text.lower())
    if named is not None:
        return named
    try:
        offset: int = LONG.convert(text)
    except ValueError:
        offset = -1
    if offset < 0:
        raise UsageError(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a "
            "non-negative long."
        )
    return offset


def formatter_of(options: Options) -> Formatter:
    """The formatter that the options of a console consumer name."""
    refuse_both(options, "property", "formatter-property")
    given = in_use(options, "property", "formatter-property", "Option")
    properties = read_properties(options.value("formatter-config")) if options.has("formatter-config") else {}
    for name in ("key-deserializer", "value-deserializer"):
        if options.value(name):
            properties[name.replace("-", ".")] = options.value(name)
    properties.update(key_values(options.values(given)))
    try:
        return formatter(options.value("formatter"), properties)
    except ToolError as error:
        raise UsageError(error.message) from None


# Reading

STOP_MS = 3_000
"""How long Ctrl-C waits for a broker that may be gone."""


async def consume(plan: Plan) -> int:
    """Read and print until the end; the exit code."""
    try:
        consumer = new_consumer(plan.settings)
    except ToolError as error:
        log("ERROR", "Unknown error when running consumer: ", LOGGER, error)
        return 1
    if plan.partition is None and plan.settings.get("group.protocol", "classic").lower() == "classic":
        print(
            "The consumer rebalance protocol (KIP-848) is production-ready! Set group.protocol=consumer to try it out. "
            "See https://kafka.apache.org/documentation/#consumer_rebalance_protocol",
            file=sys.stderr,
            flush=True,
        )
    try:
        subscribe_or_assign(consumer, plan)
    except (KafkaError, ToolError) as error:
        log("ERROR", "Unknown error when running consumer: ", LOGGER, error)
        await consumer.close()
        return 1
    console = Console(plan, consumer)
    signals = _catch_signals(console)
    try:
        await console.run()
    except ToolError as error:
        log("ERROR", "Unknown error when running consumer: ", LOGGER, error)
        console.exit_code = 1
    finally:
        for number in signals:
            asyncio.get_running_loop().remove_signal_handler(number)
    if plan.is_telling_events:
        print("shutdown_complete", flush=True)
    return console.exit_code


def new_consumer(settings: dict[str, str]) -> Consumer[Any, Any]:
    """A consumer of bytes with these settings, as far as it has them."""
    known = known_settings(ConsumerConfig, settings)
    for name in ("key.deserializer", "value.deserializer"):
        known.pop(name, None)
    try:
        return Consumer(known)
    except ConfigError as error:
        raise ToolError(str(error), CONFIG_EXCEPTION) from None


def subscribe_or_assign(consumer: Consumer[Any, Any], plan: Plan) -> None:
    if plan.topic is None:
        try:
            consumer.subscribe(pattern=re.compile(plan.include or ""))
        except re.error as error:
            raise ToolError(str(error), "java.util.regex.PatternSyntaxException") from None
    elif plan.partition is None:
        consumer.subscribe([plan.topic])
    else:
        place = (plan.topic, plan.partition)
        consumer.assign([place])
        if plan.offset == EARLIEST_TIMESTAMP:
            consumer.seek_to_beginning([place])
        elif plan.offset == LATEST_TIMESTAMP:
            consumer.seek_to_end([place])
        else:
            consumer.seek(place, plan.offset)


class Console:
    """The consumer's loop; a signal ends it, also in the middle of a poll."""

    def __init__(self, plan: Plan, consumer: Consumer[Any, Any]) -> None:
        self._plan = plan
        self._consumer = consumer
        self._poll: asyncio.Task[list[ConsumerRecord[Any, Any]]] | None = None
        self._is_stopped = False
        self.count = 0
        self.exit_code = 0

    def stop(self, number: int) -> None:
        self.exit_code = 128 + number
        self._is_stopped = True
        if self._poll is not None:
            self._poll.cancel()

    async def run(self) -> None:
        try:
            while not self._is_stopped and self._is_wanting_more():
                records = await self._next()
                if records is None or not self._print(records):
                    break
        finally:
            await self._consumer.close(STOP_MS if self._is_stopped else None)
            print(f"Processed a total of {self.count} messages", file=sys.stderr, flush=True)

    def _is_wanting_more(self) -> bool:
        most = self._plan.max_messages
        return most is None or most == -1 or self.count < most

    async def _next(self) -> list[ConsumerRecord[Any, Any]] | None:
        """The next records; None when there will be none."""
        most = self._plan.max_messages
        limit = None if most is None or most < 0 else min(most - self.count, self._consumer.config.max_poll_records)
        timeout_ms = FOREVER_MS if self._plan.timeout_ms is None else self._plan.timeout_ms
        self._poll = asyncio.create_task(self._consumer.poll(timeout_ms, max_records=limit))
        try:
            records = await self._poll
            if not records and self._plan.timeout_ms is not None:
                raise ToolError("", TIMEOUT)
            return records
        except asyncio.CancelledError:
            if self._is_stopped:
                return None
            raise
        except (KafkaError, ToolError) as error:
            log("ERROR", "Error processing message, terminating consumer process: ", LOGGER, error)
            return None
        finally:
            self._poll = None

    def _print(self, records: list[ConsumerRecord[Any, Any]]) -> bool:
        """Show records; False when stdout was closed."""
        output = sys.stdout.buffer
        show = self._plan.formatter
        try:
            for record in records:
                self.count += 1
                try:
                    output.write(show(record))
                except ToolError as error:
                    if not self._plan.is_skipping_errors:
                        raise
                    log("ERROR", "Error processing message, skipping this message: ", LOGGER, error)
            output.flush()
        except BrokenPipeError:
            print("Unable to write to standard out, closing consumer.", file=sys.stderr)
            discard_output()
            return False
        return True


def _catch_signals(console: Console) -> list[int]:
    loop = asyncio.get_running_loop()
    caught = []
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, console.stop, int(number))
        except (RuntimeError, ValueError):
            continue  # not the main thread: signals belong to another thread
        caught.append(number)
    return [int(number) for number in caught]
