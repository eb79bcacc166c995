"""kafka-console-share-consumer: the records of a topic on stdout, as a member of a share group."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

from ottla.cli.kafka.connection import CONFIG_EXCEPTION, known_settings, read_properties
from ottla.cli.kafka.console_consumer import (
    FOREVER_MS,
    FORMATTER_PROPERTIES,
    STOP_MS,
    TIMEOUT,
    formatter_of,
)
from ottla.cli.kafka.deprecated import in_use, refuse_both
from ottla.cli.kafka.entry import discard_output, run_async, run_tool
from ottla.cli.kafka.exceptions import log, show_warnings
from ottla.cli.kafka.java import hash_order
from ottla.cli.kafka.message_formatters import DEFAULT, Formatter
from ottla.cli.kafka.options import INTEGER, Option, OptionParser, Options, ToolError, UsageError, key_values
from ottla.client.config import ShareConsumerConfig
from ottla.client.core.share_acknowledgements import AcknowledgeType
from ottla.client.core.share_fetching import ShareRecord
from ottla.client.errors import ConfigError, KafkaError
from ottla.client.share_consumer import ShareConsumer

LOGGER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
GROUP = "console-share-consumer"
PARSER = OptionParser(
    Option("bootstrap-server", "REQUIRED: where the cluster is found.", argument="server to connect to"),
    Option("topic", "The topic to read.", argument="topic"),
    Option("group", "The share group to read in.", argument="share group id"),
    Option("consumer-property", "(DEPRECATED) See --command-property.", argument="consumer_prop"),
    Option("command-property", "A setting of the consumer, key=value; may be repeated.", argument="consumer_prop"),
    Option("consumer-config", "(DEPRECATED) See --command-config.", argument="config file"),
    Option("command-config", "A properties file for the consumer; [command-property] wins.", argument="config file"),
    Option("formatter", "The class that shows records.", argument="class", default=DEFAULT),
    Option("property", "(DEPRECATED) See --formatter-property.", argument="prop"),
    Option("formatter-property", f"A property of the formatter:\n{FORMATTER_PROPERTIES}", argument="prop"),
    Option(
        "formatter-config", "A properties file for the formatter; [formatter-property] wins.", argument="config file"
    ),
    Option("max-messages", "End after so many records.", argument="num_messages", kind=INTEGER),
    Option("timeout-ms", "End when no record has come for so long.", argument="timeout_ms", kind=INTEGER),
    Option("reject", "Reject records after they are shown, instead of accepting them."),
    Option("release", "Release records after they are shown, instead of accepting them."),
    Option("reject-message-on-error", "Reject a record that cannot be shown, and go on."),
    Option("key-deserializer", "The class that reads keys.", argument="deserializer for keys"),
    Option("value-deserializer", "The class that reads values.", argument="deserializer for values"),
    Option("enable-systest-events", "Say when the consumer has ended."),
)


def main(arguments: list[str]) -> int:
    return run_tool(PARSER, arguments, _run)


def _run(options: Options) -> int:
    options.help_or_version(
        "This tool helps to read data from Kafka topics using share groups and outputs it to standard output."
    )
    options.require("bootstrap-server", "topic")
    if options.has("reject") and options.has("release"):
        raise UsageError("At most one of --reject and --release may be specified.")
    settings = _settings(options)
    show = formatter_of(options)
    show_warnings()
    return run_async(_consume(options, settings, show))


def _settings(options: Options) -> dict[str, str]:
    refuse_both(options, "consumer-property", "command-property")
    refuse_both(options, "consumer-config", "command-config")
    properties = in_use(options, "consumer-property", "command-property", "Option")
    config = in_use(options, "consumer-config", "command-config", "Option")
    of_file = read_properties(options.value(config)) if options.has(config) else {}
    extra = key_values(options.values(properties))
    groups = [options.value("group")] if options.has("group") else []
    groups += [source["group.id"] for source in (of_file, extra) if "group.id" in source]
    distinct = list(dict.fromkeys(groups))
    if len(distinct) > 1:
        detected = ", ".join(f"'{group}'" for group in hash_order(distinct))
        raise UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            f"'--consumer-config') do not match. Detected group ids: {detected}"
        )
    settings = {**of_file, **extra}
    settings["bootstrap.servers"] = options.value("bootstrap-server")
    settings["group.id"] = distinct[0] if distinct else GROUP
    settings.setdefault("client.id", GROUP)
    settings["share.acknowledgement.mode"] = "explicit"
    return settings


def new_share_consumer(settings: dict[str, str]) -> ShareConsumer[Any, Any]:
    """A share consumer of bytes with these settings, as far as it has them."""
    known = known_settings(ShareConsumerConfig, settings)
    for name in ("key.deserializer", "value.deserializer"):
        known.pop(name, None)
    try:
        return ShareConsumer(known)
    except ConfigError as error:
        raise ToolError(str(error), CONFIG_EXCEPTION) from None


async def _consume(options: Options, settings: dict[str, str], show: Formatter) -> int:
    try:
        consumer = new_share_consumer(settings)
    except ToolError as error:
        log("ERROR", "Unknown error when running consumer: ", LOGGER, error)
        return 1
    consumer.subscribe([options.value("topic")])
    console = _Console(options, consumer, show)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, console.stop, int(number))
    try:
        await console.run()
    except ToolError as error:
        log("ERROR", "Unknown error when running consumer: ", LOGGER, error)
        console.exit_code = 1
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
    if options.has("enable-systest-events"):
        print("shutdown_complete", flush=True)
    return console.exit_code


class _Console:
    """The consumer's loop; a signal ends it, also in the middle of a poll."""

    def __init__(self, options: Options, consumer: ShareConsumer[Any, Any], show: Formatter) -> None:
        self._consumer = consumer
        self._show = show
        most = options.value("max-messages")
        self._max_messages = None if most is None or most < 0 else int(most)
        self._timeout_ms: int | None = options.value("timeout-ms")
        self._kind = AcknowledgeType.ACCEPT
        if options.has("reject"):
            self._kind = AcknowledgeType.REJECT
        elif options.has("release"):
            self._kind = AcknowledgeType.RELEASE
        self._is_rejecting_errors = options.has("reject-message-on-error")
        self._poll: asyncio.Task[list[ShareRecord[Any, Any]]] | None = None
        self._is_stopped = False
        self.count = 0
        self.exit_code = 0

    def stop(self, number: int) -> None:
        self.exit_code = 128 + number
        self._is_stopped = True
        if self._poll is not None:
            self._poll.cancel()

    @property
    def _is_done(self) -> bool:
        return self._is_stopped or (self._max_messages is not None and self.count >= self._max_messages)

    async def run(self) -> None:
        try:
            while not self._is_done:
                records = await self._next()
                if records is None or not self._print(records):
                    break
        finally:
            await self._consumer.close(STOP_MS if self._is_stopped else None)
            print(f"Processed a total of {self.count} messages", file=sys.stderr, flush=True)

    async def _next(self) -> list[ShareRecord[Any, Any]] | None:
        """The next records; None when there will be none."""
        timeout_ms = FOREVER_MS if self._timeout_ms is None or self._timeout_ms < 0 else self._timeout_ms
        self._poll = asyncio.create_task(self._consumer.poll(timeout_ms))
        try:
            records = await self._poll
            if not records and self._timeout_ms is not None:
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

    def _print(self, records: list[ShareRecord[Any, Any]]) -> bool:
        """Show and acknowledge records; False when nothing reads the output any more. Records that are not wanted are
        not acknowledged: closing the consumer releases them."""
        output = sys.stdout.buffer
        try:
            for record in records:
                if self._is_done:
                    break
                self.count += 1
                kind = self._kind
                try:
                    output.write(self._show(record))
                except ToolError as error:
                    if not self._is_rejecting_errors:
                        raise
                    log("ERROR", "Error processing message, rejecting this message: ", LOGGER, error)
                    kind = AcknowledgeType.REJECT
                self._consumer.acknowledge(record, kind)
            output.flush()
        except BrokenPipeError:
            print("Unable to write to standard out, closing consumer.", file=sys.stderr)
            discard_output()
            return False
        return True
