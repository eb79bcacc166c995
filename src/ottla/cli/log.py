"""`ottla log dump`: shows the content of log files, without a broker."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from ottla.cli.output import NOTHING, notice, time_text
from ottla.cli.session import HELP, CommandError, command_parser, guarded

if TYPE_CHECKING:
    from ottla.cli.log_reader import Batch
    from ottla.records import Record

COMMAND = "ottla log"
SHOWN_BYTES = 120
DAMAGED = 3
EXAMPLES = """\
  ottla log dump data/orders-0                                    every record of a partition
  ottla log dump data/orders-0/00000000000000000000.log --batches
  ottla log dump data/orders-0 --from 1200 -n 10 -o json
  ottla log dump data/__consumer_offsets-3                        commits and groups in words
"""


def parser() -> argparse.ArgumentParser:
    made = command_parser(COMMAND, "Log files, Ottla's or Apache Kafka's, read without a broker.", EXAMPLES)
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    dump = commands.add_parser(
        "dump",
        help="print the batches and records of segments",
        description="Print the batches and records of segments. Exit code 3: a file is damaged.",
        epilog=f"examples:\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    dump.add_argument("paths", nargs="+", metavar="PATH", help="segments (.log), or the folder of a partition")
    dump.add_argument("--batches", action="store_true", help="batches only, not their records")
    dump.add_argument("--from", dest="start", type=int, metavar="OFFSET", help="begin there")
    dump.add_argument("-n", "--max", type=int, metavar="N", help="end after so many records (or batches)")
    dump.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json: one line each")
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments or HELP)
    return guarded(COMMAND, lambda: dump(options))


def dump(options: argparse.Namespace) -> int:
    from ottla.cli.log_reader import Damage, log_files, read_batches

    dumping = Dumping(options)
    is_damaged = False
    for given in options.paths:
        files = log_files(given)
        if not files:
            raise CommandError(f"{given} has no .log files: give a segment, or the folder of one partition")
        for path in files:
            if not os.path.isfile(path):
                raise CommandError(f"{path} is neither a file nor a folder")
            if options.output == "text":
                print(f"{path}  {os.path.getsize(path)} bytes")
            for found in read_batches(path):
                if isinstance(found, Damage):
                    is_damaged = True
                    notice(f"{path} is damaged at byte {found.position}: {found.reason}")
                elif options.start is None or found.header.last_offset >= options.start:
                    is_damaged = dumping.show(path, found) or is_damaged
                if dumping.is_enough:
                    return DAMAGED if is_damaged else 0
    return DAMAGED if is_damaged else 0


class Dumping:
    """Shows batches, and counts."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._left: int | None = options.max

    @property
    def is_enough(self) -> bool:
        return self._left is not None and self._left <= 0

    def _counts(self) -> None:
        if self._left is not None:
            self._left -= 1

    def show(self, path: str, batch: Batch) -> bool:
        """Whether it is damaged."""
        from ottla.records import CorruptRecords

        is_text = self._options.output == "text"
        if is_text:
            print(batch_line(batch))
        if self._options.batches:
            self._counts()
            if not is_text:
                write_json({"file": path, **batch.document()})
            return not batch.is_valid
        if not batch.is_valid:
            notice(f"{path}: the batch at byte {batch.position} is damaged: its checksum is wrong")
        try:
            records = batch.records()
        except CorruptRecords as error:
            notice(f"{path}: the records of the batch at byte {batch.position} cannot be read: {error}")
            return True
        topic = os.path.basename(os.path.dirname(os.path.abspath(path))).rpartition("-")[0]
        for record in records:
            if self._options.start is not None and record.offset < self._options.start:
                continue
            if self.is_enough:
                break
            self._counts()
            if is_text:
                print(record_line(topic, batch, record))
            else:
                write_json(record_document(path, topic, batch, record))
        return not batch.is_valid


def write_json(document: dict[str, Any]) -> None:
    import json

    sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")


def batch_line(batch: Batch) -> str:
    document = batch.document()
    line = (
        f"batch {document['base_offset']}..{document['last_offset']}  {document['count']} records  "
        f"at byte {document['position']}, {document['size']} bytes, {document['compression']}  "
        f"{document['timestamp_type']} {when(document['max_timestamp'])}  epoch {document['leader_epoch']}"
    )
    if document["producer_id"] >= 0:
        line += (
            f"  producer {document['producer_id']} epoch {document['producer_epoch']} "
            f"sequence {document['base_sequence']}"
        )
    for name in ("is_transactional", "is_control"):
        line += f"  {name.removeprefix('is_')}" if document[name] else ""
    return line + ("" if document["is_valid"] else "  DAMAGED")


def record_line(topic: str, batch: Batch, record: Record) -> str:
    line = f"  {record.offset}  {when(record.timestamp)}  "
    meaning = meaning_of(topic, batch, record)
    if meaning is not None:
        return line + meaning
    headers = ", ".join(f"{name}={text(value)}" for name, value in record.headers)
    return f"{line}{text(record.key)}  {text(record.value)}" + (f"  {{{headers}}}" if headers else "")


def record_document(path: str, topic: str, batch: Batch, record: Record) -> dict[str, Any]:
    from ottla.cli.record_format import record_document as as_document
    from ottla.client.core.fetching import ConsumerRecord

    document = as_document(
        ConsumerRecord(topic, 0, record.offset, record.timestamp, record.key, record.value, record.headers)
    )
    del document["topic"], document["partition"]
    document = {"file": path, "batch_position": batch.position, **document}
    meaning = meaning_of(topic, batch, record)
    if meaning is not None:
        document["meaning"] = meaning
    return document


def when(timestamp: int) -> str:
    return NOTHING if timestamp < 0 else time_text(timestamp)


def text(data: bytes | None) -> str:
    """Bytes as text if they are text, else as hexadecimal digits; null is shown apart from an empty value."""
    if data is None:
        return NOTHING
    try:
        shown = data.decode()
        if not shown.isprintable():
            shown = repr(shown)[1:-1]
    except UnicodeDecodeError:
        shown = f"0x{data[:SHOWN_BYTES].hex()}"
    return shown if len(shown) <= SHOWN_BYTES else f"{shown[:SHOWN_BYTES]}... ({len(data)} bytes)"


# --- what Kafka's own topics say


def meaning_of(topic: str, batch: Batch, record: Record) -> str | None:
    """The content of a control record, or of a record of one of Kafka's own topics; None for other topics."""
    from ottla.records import ControlType, CorruptRecords, parse_control_key
    from ottla.wire import WireError
    from ottla.wire.internal_topics import GROUP_METADATA_TOPIC, METADATA_TOPIC, TRANSACTION_STATE_TOPIC

    try:
        if batch.header.is_control:
            return f"control {ControlType(parse_control_key(record.key)).name}"
        if topic == METADATA_TOPIC:
            from ottla.cluster import decode_record

            return str(decode_record(record.value or b""))
        if topic == GROUP_METADATA_TOPIC:
            from ottla.groups.records import decode_record as decode_group_record

            return str(decode_group_record(record.key or b"", record.value))
        if topic == TRANSACTION_STATE_TOPIC:
            from ottla.transactions.records import decode_record as decode_transaction_record

            return str(decode_transaction_record(record.key or b"", record.value))
    except (WireError, CorruptRecords, ValueError) as error:
        return f"not understood: {error}"
    return None
