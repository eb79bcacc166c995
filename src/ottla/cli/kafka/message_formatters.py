"""How kafka-console-consumer shows a record: Kafka's formatters by their class names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.cli.kafka.deserializers import Deserializer, deserializer
from ottla.cli.kafka.exceptions import log
from ottla.cli.kafka.message_json import format_json
from ottla.cli.kafka.options import ToolError
from ottla.client.core.fetching import ConsumerRecord
from ottla.client.core.share_fetching import ShareRecord

PACKAGE = "org.apache.kafka.tools.consumer"
DEFAULT = f"{PACKAGE}.DefaultMessageFormatter"
_OFFSET_COMMITS = (0, 1)
_GROUP_METADATA = (2,)
Record = ConsumerRecord[Any, Any] | ShareRecord[Any, Any]
Formatter = Callable[[Record], bytes]
"""What is printed of a record."""


def formatter(class_name: str, properties: Mapping[str, str]) -> Formatter:
    """The formatter of that name; ToolError for a class that Kafka does not have."""
    package, _, name = class_name.rpartition(".")
    make = _FORMATTERS.get(name) if package == PACKAGE else None
    if make is None:
        raise ToolError(class_name, "java.lang.ClassNotFoundException")
    return make(properties)


class DefaultFormatter:
    """A line for a record: its value, preceded by the parts that the properties ask for."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._prints = {
            name: _is_true(properties.get(f"print.{name}", default))
            for name, default in (
                ("timestamp", "false"),
                ("partition", "false"),
                ("offset", "false"),
                ("delivery", "false"),
                ("epoch", "false"),
                ("headers", "false"),
                ("key", "false"),
                ("value", "true"),
            )
        }
        self._columns = [name for name, is_printed in self._prints.items() if is_printed]
        self._separator = properties.get("key.separator", "\t").encode()
        self._line_end = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._key = _deserializer(properties, "key.deserializer")
        self._value = _deserializer(properties, "value.deserializer")
        self._header = _deserializer(properties, "headers.deserializer")

    def __call__(self, record: Record) -> bytes:
        if self._columns == ["value"]:
            return self._shown(record.value, self._value) + self._line_end
        if not self._columns:
            return b""
        return self._separator.join(self._column(name, record) for name in self._columns) + self._line_end

    def _column(self, name: str, record: Record) -> bytes:
        if name == "value":
            return self._shown(record.value, self._value)
        if name == "key":
            return self._shown(record.key, self._key)
        if name == "headers":
            shown = [key.encode() + b":" + self._shown(value, self._header) for key, value in record.headers]
            return self._headers_separator.join(shown) if shown else b"NO_HEADERS"
        if name == "timestamp":
            return f"{record.timestamp_type}:{record.timestamp}".encode()
        if name == "partition":
            return b"Partition:%d" % record.partition
        if name == "offset":
            return b"Offset:%d" % record.offset
        if name == "delivery" and isinstance(record, ShareRecord):
            return b"Delivery:%d" % record.delivery_count
        # the original drops both from the record before it formats it
        return b"Delivery:NOT_PRESENT" if name == "delivery" else b"Epoch:NOT_PRESENT"

    def _shown(self, data: bytes | None, text_of: Deserializer | None) -> bytes:
        known = self._null if data is None else bytes(data)
        return known if text_of is None else text_of(known).encode()


class LoggingFormatter:
    """The default, and a line in the log; the tools' log begins at WARN, so that line is not seen."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._default = DefaultFormatter(properties)

    def __call__(self, record: Record) -> bytes:
        return self._default(record)


class CoordinatorFormatter:
    """Records of Kafka's own topics as JSON, one behind the other."""

    def __init__(self, topic: str, types: tuple[int, ...] | None) -> None:
        from ottla.cli.kafka.coordinator_records import GROUPS, TRANSACTIONS

        self._schemas = GROUPS if topic == "groups" else TRANSACTIONS
        self._types = types

    def __call__(self, record: Record) -> bytes:
        from ottla.cli.kafka.coordinator_records import UnknownType, read_record
        from ottla.wire import WireError

        if record.key is None:
            return b""
        try:
            found = read_record(self._schemas, record.key, record.value)
        except UnknownType:
            return b""
        except WireError as error:
            raise ToolError(
                f"Could not read record at offset {record.offset} due to: {error}", "java.lang.RuntimeException"
            ) from None
        if self._types is not None and found.type not in self._types:
            return b""
        value = None if found.value is None else {"version": found.version, "data": found.value}
        return format_json({"key": {"type": found.type, "data": found.key}, "value": value}).encode()


def _nothing(_: Mapping[str, str]) -> Formatter:
    return lambda record: b""


_FORMATTERS: dict[str, Callable[[Mapping[str, str]], Formatter]] = {
    "DefaultMessageFormatter": DefaultFormatter,
    "LoggingMessageFormatter": LoggingFormatter,
    "NoOpMessageFormatter": _nothing,
    "OffsetsMessageFormatter": lambda _: CoordinatorFormatter("groups", _OFFSET_COMMITS),
    "GroupMetadataMessageFormatter": lambda _: CoordinatorFormatter("groups", _GROUP_METADATA),
    "TransactionLogMessageFormatter": lambda _: CoordinatorFormatter("transactions", None),
}


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def _deserializer(properties: Mapping[str, str], name: str) -> Deserializer | None:
    class_name = properties.get(name)
    if class_name is None:
        return None
    found = deserializer(class_name)
    if found is None:
        log(
            "ERROR",
            f"Unable to instantiate a deserializer from {class_name}",
            DEFAULT,
            ToolError(class_name, "java.lang.ClassNotFoundException"),
        )
    return found
