"""Acknowledgements of a share consumer: which records the application has, how it acknowledged each, and the ranges of
offsets of one type that are sent to the broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.wire.errors import ErrorCode, KafkaError

GAP = 0
"""On the wire: an acquired offset without a record (a control record, or removed by compaction)."""


class AcknowledgeType(IntEnum):
    """The result that a member reports for an acquired record."""

    ACCEPT = 1
    """The record was processed: it is not delivered again."""
    RELEASE = 2
    """The record was not processed: it is delivered again, to this or another member, until the delivery limit."""
    REJECT = 3
    """The record cannot be processed: it is not delivered again (the group may have a dead-letter topic)."""
    RENEW = 4
    """The record is still being processed: its acquisition lock starts anew."""


class AcknowledgedRange(NamedTuple):
    """Offsets next to each other with the same acknowledgement; the last offset is included, as on the wire."""

    first_offset: int
    last_offset: int
    type: int


Acknowledgements = dict[int, int]
"""Offset -> AcknowledgeType, for one partition."""


def as_ranges(acknowledgements: Mapping[int, int]) -> list[AcknowledgedRange]:
    """The fewest ranges of one type that cover these offsets, in order."""
    ranges: list[AcknowledgedRange] = []
    first = last = kind = -1
    for offset, each in sorted(acknowledgements.items()):
        if offset == last + 1 and each == kind:
            last = offset
            continue
        if first >= 0:
            ranges.append(AcknowledgedRange(first, last, kind))
        first, last, kind = offset, offset, each
    if first >= 0:
        ranges.append(AcknowledgedRange(first, last, kind))
    return ranges


class InFlight:
    """The records of one partition that the application has."""

    __slots__ = ("_acknowledged", "_delivered", "node_id")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        """The broker that delivered the records and holds their locks."""
        self._delivered: dict[int, None] = {}
        self._acknowledged: Acknowledgements = {}

    @property
    def is_empty(self) -> bool:
        return not self._delivered and not self._acknowledged

    @property
    def unacknowledged_count(self) -> int:
        return len(self._delivered)

    def deliver(self, offsets: Iterable[int]) -> None:
        self._delivered.update(dict.fromkeys(offsets))

    def acknowledge(self, offset: int, kind: AcknowledgeType) -> None:
        """KafkaError if the application does not have this record. The last acknowledgement before a commit counts."""
        if offset in self._delivered:
            del self._delivered[offset]
        elif offset not in self._acknowledged:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "The record cannot be acknowledged.")
        self._acknowledged[offset] = kind

    def acknowledge_all(self, kind: AcknowledgeType) -> None:
        """Acknowledge what has no acknowledgement yet (implicit acknowledgement)."""
        for offset in self._delivered:
            self._acknowledged[offset] = kind
        self._delivered = {}

    def take(self) -> Acknowledgements:
        """The acknowledgements to send; they are no longer here."""
        taken, self._acknowledged = self._acknowledged, {}
        return taken
