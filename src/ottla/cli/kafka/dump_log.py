"""kafka-dump-log: the content of a partition's files, batch by batch and record by record."""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path

from ottla.cli.kafka.dump_index import CorruptFile, IndexDump, base_offset_of
from ottla.cli.kafka.dump_records import CORRUPT_RECORD, RecordDump, Shown, batches, shown_as
from ottla.cli.kafka.options import INTEGER, Exit, Option, OptionError, OptionParser, ToolError, UsageError, show_usage
from ottla.records import CorruptRecords, crc32c
from ottla.wire import WireError, decode
from ottla.wire.messages.records.producer_snapshot import ProducerSnapshot

MAX_INT = 2**31 - 1
_STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"
PARSER = OptionParser(
    Option("files", "REQUIRED: the files to show, separated by commas.", argument="file1, file2, ..."),
    Option("print-data-log", "Show keys and values of the records, too. Every decoder option implies it."),
    Option("deep-iteration", "Show every record, not only the batches. --print-data-log implies it."),
    Option("skip-record-metadata", "Show of records only keys and values; control records are left out."),
    Option("verify-index-only", "Compare the indexes with the log and show only where they differ."),
    Option("index-sanity-check", "Only make the check that a broker makes of its indexes when it starts."),
    Option("max-message-size", "The size of the largest batch.", argument="size", kind=INTEGER, default=5_242_880),
    Option("max-bytes", "Read so much of each .log file and no more.", argument="size", kind=INTEGER, default=MAX_INT),
    Option("offsets-decoder", "The records are those of __consumer_offsets."),
    Option("transaction-log-decoder", "The records are those of __transaction_state."),
    Option("share-group-state-decoder", "The records are those of __share_group_state."),
    Option("cluster-metadata-decoder", "The records are those of the metadata log."),
    Option("remote-log-metadata-decoder", "The records are those of __remote_log_metadata; they are shown as JSON."),
    Option(
        "key-decoder-class",
        "How keys are shown: StringDecoder, IntegerDecoder, LongDecoder or DefaultDecoder.",
        argument="",
        is_argument_optional=True,
        default=_STRING_DECODER,
    ),
    Option(
        "value-decoder-class",
        "How values are shown: StringDecoder, IntegerDecoder, LongDecoder or DefaultDecoder.",
        argument="",
        is_argument_optional=True,
        default=_STRING_DECODER,
    ),
)
_SHOWS_CONTENTS = (
    "print-data-log",
    "offsets-decoder",
    "transaction-log-decoder",
    "cluster-metadata-decoder",
    "remote-log-metadata-decoder",
    "value-decoder-class",
    "key-decoder-class",
    "share-group-state-decoder",
)
_BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"


def main(arguments: list[str]) -> int:
    try:
        options = PARSER.parse(arguments)
        options.help_or_version(
            "This tool helps to parse a log file and dump its contents to the console, useful for debugging a "
            "seemingly corrupt log segment."
        )
        options.require("files")
        shows_contents = any(options.has(name) for name in _SHOWS_CONTENTS)
        dump = LogDump(
            shown_as(options, is_deep=options.has("deep-iteration") or shows_contents, shows_contents=shows_contents),
            IndexDump(
                options.has("index-sanity-check"), options.has("verify-index-only"), options.value("max-message-size")
            ),
            options.value("max-bytes"),
        )
        files = options.value("files").split(",")
    except Exit as exit_:
        return exit_.code
    except UsageError as error:
        return show_usage(PARSER, error)
    except (OptionError, ToolError) as error:
        sys.stderr.write(f'Exception in thread "main" {error.trace}')
        return 1
    try:
        for file in files:
            dump.show(file)
    except ToolError as error:
        sys.stdout.flush()
        sys.stderr.write(f'Exception in thread "main" {error.trace}')
        return 1
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # what is still buffered has nowhere to go
        return 1
    dump.show_findings()
    return 0


class LogDump:
    """Shows file after file, and at the end the errors found in them."""

    def __init__(self, shown: Shown, indexes: IndexDump, max_bytes: int) -> None:
        self._shown = shown
        self._indexes = indexes
        self._max_bytes = max_bytes
        self._gaps: dict[str, list[tuple[int, int]]] = {}

    def show(self, file: str) -> None:
        path = Path(file)
        print(f"Dumping {path}")
        suffix = path.suffix
        try:
            if suffix in (".log", ".checkpoint"):
                self._show_log(path)
            elif suffix == ".index":
                self._indexes.show_offsets(path)
            elif suffix == ".timeindex":
                self._indexes.show_times(path)
            elif suffix == ".snapshot":
                _show_producers(path)
            elif suffix == ".txnindex":
                self._indexes.show_aborted(path)
            else:
                sys.stdout.flush()
                print(f"Ignoring unknown file {path}", file=sys.stderr)
        except OSError as error:
            raise ToolError(
                f"{error.filename or path} ({error.strerror})", "java.nio.file.NoSuchFileException"
            ) from None
        except CorruptRecords as error:
            raise ToolError(str(error), CORRUPT_RECORD) from None

    def _show_log(self, path: Path) -> None:
        if path.suffix == ".log":
            print(f"Log starting offset: {base_offset_of(path)}")
        elif path.name == _BOOTSTRAP_CHECKPOINT:
            print("KRaft bootstrap snapshot")
        else:
            offset, _, epoch = path.name.removesuffix(".checkpoint").partition("-")
            if not (offset.isdigit() and epoch.isdigit()):
                raise ToolError("No value present", "java.util.NoSuchElementException")
            print(f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}")
        data = mapped(path)[: self._max_bytes]
        dump = RecordDump(self._shown)
        end = 0
        for position, batch in batches(data, path):
            end = position + len(batch)
            dump.show(position, batch)
        if len(data) > end and self._max_bytes == MAX_INT:
            print(f"Found {len(data) - end} invalid bytes at the end of {path.name}")
        if dump.gaps:
            self._gaps[str(path.absolute())] = dump.gaps

    def show_findings(self) -> None:
        """What was wrong: indexes that do not fit their logs, offsets that are missing."""
        sys.stdout.flush()
        self._indexes.show_findings()
        for name, gaps in self._gaps.items():
            print(f"Non-consecutive offsets in {name}", file=sys.stderr)
            for before, after in sorted(dict(gaps).items()):
                print(f"  {before} is followed by {after}", file=sys.stderr)


def mapped(path: Path) -> memoryview:
    """The bytes of a file, read as they are looked at."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _show_producers(path: Path) -> None:
    """The producers of a partition as of the offset in the file's name."""
    data = path.read_bytes()
    try:
        entries = _read_producers(data)
    except CorruptFile as error:
        sys.stdout.flush()
        print(error, file=sys.stderr)
        return
    for entry in entries.producer_entries:
        first = entry.current_txn_first_offset
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} "
            f"coordinatorEpoch: {entry.coordinator_epoch} "
            f"currentTxnFirstOffset: {f'OptionalLong[{first}]' if first >= 0 else 'OptionalLong.empty'} "
            f"lastTimestamp: {entry.timestamp}"
        )
        if entry.last_offset >= 0:
            first_sequence = (entry.last_sequence - entry.offset_delta) % (MAX_INT + 1)
            line += (
                f" firstSequence: {first_sequence} lastSequence: {entry.last_sequence} lastOffset: {entry.last_offset} "
                f"offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
            )
        print(line)


def _read_producers(data: bytes) -> ProducerSnapshot:
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or version != 1:
        reason = f"Snapshot contained an unknown file version {version}" if len(data) >= 2 else "null"
        raise CorruptFile(f"Snapshot failed schema validation: {reason}")
    try:
        snapshot = decode(ProducerSnapshot, version, data, 2)
    except WireError as error:
        raise CorruptFile(f"Snapshot failed schema validation: {error}") from None
    computed = crc32c(data[6:])
    if computed != snapshot.crc:
        raise CorruptFile(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {snapshot.crc}. Computed crc: {computed}"
        )
    return snapshot
