"""The features of a Kafka cluster: what this release supports and what each `metadata.version` allows in the log.

A feature is a named number that all nodes have agreed on ("finalized"). The most important one, `metadata.version`,
says which versions of the metadata records may be written, so that every node that is still allowed in the cluster can
read them. The table is Kafka 4.4.0's.
"""

from __future__ import annotations

from typing import NamedTuple

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"


class FeatureRange(NamedTuple):
    """The lowest and the highest level of a feature that a node supports, both included."""

    min_level: int
    max_level: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.min_level <= level <= self.max_level


SUPPORTED_FEATURES: dict[str, FeatureRange] = {
    GROUP_VERSION: FeatureRange(0, 1),
    KRAFT_VERSION: FeatureRange(0, 1),
    METADATA_VERSION: FeatureRange(7, 33),
    SHARE_VERSION: FeatureRange(0, 2),
    STREAMS_VERSION: FeatureRange(0, 1),
    TRANSACTION_VERSION: FeatureRange(0, 2),
    ELIGIBLE_LEADER_REPLICAS_VERSION: FeatureRange(0, 1),
}
"""What an Ottla node supports, which is what Apache Kafka 4.4.0 supports."""

FORMATTED_FEATURES: dict[str, int] = {
    METADATA_VERSION: 30,
    ELIGIBLE_LEADER_REPLICAS_VERSION: 1,
    GROUP_VERSION: 1,
    SHARE_VERSION: 1,
    STREAMS_VERSION: 1,
    TRANSACTION_VERSION: 2,
}
"""The levels a new cluster starts with unless its folder was formatted with others, in the order that `kafka-storage
format` writes. They are those of Kafka 4.3, so that its brokers can join: see docs/decisions/0018."""

FEATURE_DEPENDENCIES: dict[tuple[str, int], dict[str, int]] = {
    (ELIGIBLE_LEADER_REPLICAS_VERSION, 1): {METADATA_VERSION: 23},
}
"""Levels of other features that a level needs."""

MIN_METADATA_VERSION = 7
LATEST_METADATA_VERSION = 33

METADATA_VERSION_NAMES: dict[int, str] = {
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
    31: "4.4-IV0",
    32: "4.4-IV1",
    33: "4.4-IV2",
}
"""What people call each `metadata.version`."""

RELEASE_LEVELS: dict[str, tuple[tuple[int, int], ...]] = {
    KRAFT_VERSION: ((21, 1),),
    TRANSACTION_VERSION: ((24, 2),),
    GROUP_VERSION: ((22, 1),),
    ELIGIBLE_LEADER_REPLICAS_VERSION: ((26, 1),),
    SHARE_VERSION: ((28, 1), (31, 2)),
    STREAMS_VERSION: ((29, 1),),
}
"""feature -> from which `metadata.version` on a release has which level of it."""


def release_level(feature: str, metadata_version: int) -> int:
    """The level of a feature in the release of this `metadata.version`."""
    return max((level for since, level in RELEASE_LEVELS[feature] if metadata_version >= since), default=0)


def release_metadata_version(name: str) -> int | None:
    """The level of a release's name: 4.0-IV3, or 4.0 for the last of that release; None if there is no such release."""
    levels = [level for level, text in METADATA_VERSION_NAMES.items() if text == name or text.startswith(f"{name}-")]
    return max(levels, default=None)


_LEVELS_THAT_CHANGED_RECORDS = (7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33)

_SCRAM_LEVEL = 11
_TRANSACTIONS_LEVEL = 14
_DELEGATION_TOKENS_LEVEL = 13
_CONTROLLER_REGISTRATION_LEVEL = 15
_DIRECTORY_ASSIGNMENT_LEVEL = 17
_ELR_LEVEL = 23
_CORDONED_LOG_DIRS_LEVEL = 30
_CONTROLLER_UNREGISTRATION_LEVEL = 33


def has_metadata_changed(first: int, second: int) -> bool:
    """Whether moving between two levels of `metadata.version` changes what the records can say."""
    low, high = min(first, second), max(first, second)
    return any(low < level <= high for level in _LEVELS_THAT_CHANGED_RECORDS)


def supports_scram(metadata_version: int) -> bool:
    return metadata_version >= _SCRAM_LEVEL


def supports_delegation_tokens(metadata_version: int) -> bool:
    return metadata_version >= _DELEGATION_TOKENS_LEVEL


def supports_metadata_transactions(metadata_version: int) -> bool:
    """Whether BeginTransactionRecord and its end may be written (KIP-868)."""
    return metadata_version >= _TRANSACTIONS_LEVEL


def supports_controller_registration(metadata_version: int) -> bool:
    return metadata_version >= _CONTROLLER_REGISTRATION_LEVEL


def supports_directory_assignment(metadata_version: int) -> bool:
    """Whether partitions say in which log directory each replica lives (KIP-858)."""
    return metadata_version >= _DIRECTORY_ASSIGNMENT_LEVEL


def supports_eligible_leader_replicas(metadata_version: int) -> bool:
    """Whether partitions may carry eligible leader replicas (KIP-966)."""
    return metadata_version >= _ELR_LEVEL


def supports_cordoned_log_dirs(metadata_version: int) -> bool:
    return metadata_version >= _CORDONED_LOG_DIRS_LEVEL


def supports_controller_unregistration(metadata_version: int) -> bool:
    """Whether UnregisterControllerRecord may be written (KIP-1312)."""
    return metadata_version >= _CONTROLLER_UNREGISTRATION_LEVEL


def register_broker_version(metadata_version: int) -> int:
    if metadata_version >= _CORDONED_LOG_DIRS_LEVEL:
        return 4
    if metadata_version >= _DIRECTORY_ASSIGNMENT_LEVEL:
        return 3
    return 2 if metadata_version >= 8 else 1


def partition_version(metadata_version: int) -> int:
    """The version of PartitionRecord and PartitionChangeRecord."""
    if metadata_version >= _ELR_LEVEL:
        return 2
    return 1 if metadata_version >= _DIRECTORY_ASSIGNMENT_LEVEL else 0
