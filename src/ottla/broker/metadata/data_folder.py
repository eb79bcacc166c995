"""A data folder as `kafka-storage format` leaves it: its node and cluster, and the first records of a new cluster.

Every log dir has a `meta.properties` with the cluster's id, the node's id and an id of its own. The one that holds the
metadata log also has `bootstrap.checkpoint`: the records that the first controller writes when it finds the log empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from ottla.broker.metadata.snapshots import decode_snapshot, encode_snapshot
from ottla.cluster.features import FORMATTED_FEATURES, METADATA_VERSION
from ottla.cluster.topic import LOST_DIRECTORY, UNASSIGNED_DIRECTORY
from ottla.records import CorruptRecords
from ottla.storage import CorruptCheckpoint, Disk, MetaProperties, read_meta_properties, write_meta_properties
from ottla.wire import Message
from ottla.wire.messages.records.feature_level_record import FeatureLevelRecord
from ottla.wire.primitives import ZERO_UUID, uuid_text

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
_RESERVED_IDS = (ZERO_UUID, UNASSIGNED_DIRECTORY, LOST_DIRECTORY)


class DataFolderError(Exception):
    """A data folder that this node must not use."""


def new_uuid(rng: Random) -> bytes:
    """A random (version 4) uuid that is not reserved and does not begin with a dash in its text form."""
    while True:
        value = bytearray(rng.randbytes(16))
        value[6] = value[6] & 0x0F | 0x40
        value[8] = value[8] & 0x3F | 0x80
        drawn = bytes(value)
        if drawn not in _RESERVED_IDS and not uuid_text(drawn).startswith("-"):
            return drawn


def format_data_folder(
    disk: Disk,
    log_dirs: Sequence[str],
    node_id: int,
    rng: Random,
    *,
    new_cluster_id: str | None = None,
    is_alone: bool = True,
) -> MetaProperties:
    """Make sure every log dir belongs to this node of one cluster, formatting those that are new.

    Returns the first one's properties. DataFolderError if one belongs to another node or cluster, or if none has a
    cluster id and the node has others beside it: a new id would separate it from them.
    """
    known: dict[str, MetaProperties] = {}
    for directory in log_dirs:
        try:
            meta = read_meta_properties(disk, directory)
        except CorruptCheckpoint as error:
            raise DataFolderError(str(error)) from None
        if meta is not None:
            known[directory] = meta
    cluster_id = next((meta.cluster_id for meta in known.values()), None) or new_cluster_id
    if cluster_id is None:
        if not is_alone:
            raise DataFolderError(
                f"{log_dirs[0]} is not formatted, and this node is one of several: give all nodes the same "
                "--cluster-id (kafka-storage.sh random-uuid makes one), or format the folders with "
                "kafka-storage.sh format"
            )
        cluster_id = uuid_text(new_uuid(rng))
    elif new_cluster_id is not None and new_cluster_id != cluster_id:
        raise DataFolderError(f"{log_dirs[0]} belongs to cluster {cluster_id}, not to {new_cluster_id}")
    for directory, meta in known.items():
        if meta.node_id != node_id:
            raise DataFolderError(f"{directory} belongs to node {meta.node_id}, but node.id is {node_id}")
        if meta.cluster_id != cluster_id:
            raise DataFolderError(f"{directory} belongs to cluster {meta.cluster_id}, another to {cluster_id}")
    for directory in log_dirs:
        found = known.get(directory)
        if found is None or found.directory_id is None:
            disk.make_directory(directory)
            known[directory] = MetaProperties(cluster_id, node_id, new_uuid(rng))
            write_meta_properties(disk, directory, known[directory])
    return known[log_dirs[0]]


def formatted_records() -> list[Message]:
    """The first records of a new cluster: the feature levels of this release."""
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in FORMATTED_FEATURES.items()]


def format_metadata_folder(disk: Disk, directory: str, folder: str, timestamp: int) -> None:
    """Write what `kafka-storage format` does besides meta.properties. The folder comes last: it marks the end."""
    if not disk.exists(f"{directory}/{BOOTSTRAP_CHECKPOINT}"):
        batches = encode_snapshot(
            formatted_records(),
            metadata_version=FORMATTED_FEATURES[METADATA_VERSION],
            epoch=0,
            timestamp=timestamp,
            last_contained_timestamp=0,
        )
        replace_file(disk, directory, BOOTSTRAP_CHECKPOINT, b"".join(batches))
    disk.make_directory(f"{directory}/{folder}")
    disk.sync_directory(directory)


def bootstrap_records(disk: Disk, directory: str) -> list[Message]:
    """The records with which the folder was formatted, for the first controller."""
    path = f"{directory}/{BOOTSTRAP_CHECKPOINT}"
    if not disk.exists(path):
        return formatted_records()
    try:
        return decode_snapshot(read_file(disk, path)).records
    except CorruptRecords as error:
        raise DataFolderError(f"{path} is damaged: {error}") from None


def read_file(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def replace_file(disk: Disk, directory: str, name: str, data: bytes) -> None:
    """Put a small file in place so that a crash leaves the old one or the new one, whole."""
    temporary = f"{directory}/{name}.tmp"
    file = disk.open(temporary, create=True)
    try:
        file.truncate(0)
        file.write(0, data)
        file.sync_now()
    finally:
        file.close()
    disk.rename(temporary, f"{directory}/{name}")
    disk.sync_directory(directory)
