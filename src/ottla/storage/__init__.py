"""The log on a disk: Kafka's files, segments, recovery and retention."""

from ottla.storage.checkpoints import CorruptCheckpoint, MetaProperties, read_meta_properties, write_meta_properties
from ottla.storage.compaction import Cleaner
from ottla.storage.disk import Disk, File, FileSlice, OsDisk
from ottla.storage.index import AbortedTransaction
from ottla.storage.log import Appended, Log, RecordsRefused
from ottla.storage.log_reads import TimestampOffset
from ottla.storage.logs import LogDir, Logs
from ottla.storage.recovery import LastStop, load_log
from ottla.storage.segment import Segment

__all__ = [
    "AbortedTransaction",
    "Appended",
    "Cleaner",
    "CorruptCheckpoint",
    "Disk",
    "File",
    "FileSlice",
    "LastStop",
    "Log",
    "LogDir",
    "Logs",
    "MetaProperties",
    "OsDisk",
    "RecordsRefused",
    "Segment",
    "TimestampOffset",
    "load_log",
    "read_meta_properties",
    "write_meta_properties",
]
