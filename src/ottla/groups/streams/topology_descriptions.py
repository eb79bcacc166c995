"""Descriptions of topologies (KIP-1331), for `kafka-streams-groups.sh --describe --topology`: sent by members, kept in
memory.

A heartbeat asks a member for a missing description of a topology epoch, and not again for a while: 30 s,
then twice as long each time, at most an hour. After a failover the new coordinator asks again; nothing is written. As
in Kafka a setting turns it on (`group.streams.topology.description.plugin.class`), with the name of Kafka's own store
in memory.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.groups.streams.group import StreamsGroup
from ottla.wire import encode_bytes
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages import streams_group_describe as described
from ottla.wire.messages import streams_group_topology_description_update as sent
from ottla.wire.messages.streams_group_topology_description_update import StreamsGroupTopologyDescriptionUpdateRequest

NOT_STORED: Final = 1
AVAILABLE: Final = 3
FIRST_BACKOFF_MS: Final = 30_000
MAX_BACKOFF_MS: Final = 3_600_000
MAX_DESCRIPTION_BYTES: Final = 1 << 20
MAX_TOTAL_BYTES: Final = 64 << 20
"""Of all descriptions in a shard."""


class _Stored(NamedTuple):
    epoch: int
    size: int
    description: described.TopologyDescription


class _Backoff(NamedTuple):
    epoch: int
    attempt_count: int
    until: int
    """Monotonic milliseconds."""


class TopologyDescriptions:
    def __init__(self) -> None:
        self._stored: dict[str, _Stored] = {}
        self._refused: dict[str, int] = {}
        """The topology epoch whose description was too large: it is not asked for again."""
        self._backoffs: dict[str, _Backoff] = {}
        self._total_bytes = 0

    def ask_for(self, group: StreamsGroup, epoch: int, now: int) -> bool:
        """Whether a heartbeat is to ask its member for the description of a topology."""
        stored = self._stored.get(group.id)
        if (stored is not None and stored.epoch == epoch) or self._refused.get(group.id) == epoch:
            return False
        before = self._backoffs.get(group.id)
        if before is not None and before.epoch == epoch and now < before.until:
            return False
        self._wait(group.id, epoch, now)
        return True

    def _wait(self, group_id: str, epoch: int, now: int) -> None:
        before = self._backoffs.get(group_id)
        count = 0 if before is None or before.epoch != epoch else before.attempt_count
        wait_ms = min(FIRST_BACKOFF_MS << min(count, 10), MAX_BACKOFF_MS)
        self._backoffs[group_id] = _Backoff(epoch, count + 1, now + wait_ms)

    def store(self, group: StreamsGroup, request: StreamsGroupTopologyDescriptionUpdateRequest, now: int) -> None:
        """Keep a member's description, in place of the group's former one. Raises the member's error."""
        group.member(request.member_id)
        epoch = request.topology_epoch
        if group.topology is None or epoch != group.topology.epoch:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"The topology description is of topology epoch {epoch}, not of the group's topology epoch "
                f"{-1 if group.topology is None else group.topology.epoch}.",
            )
        size = len(encode_bytes(request, 0))
        if size > MAX_DESCRIPTION_BYTES:
            self._refused[group.id] = epoch
            raise _failed(f"The topology description has {size} bytes; at most {MAX_DESCRIPTION_BYTES} are stored.")
        before = self._stored.get(group.id)
        total = self._total_bytes + size - (0 if before is None else before.size)
        if total > MAX_TOTAL_BYTES:
            self._wait(group.id, epoch, now)
            raise _failed("The broker stores as many topology descriptions as it may; try again later.")
        self._stored[group.id] = _Stored(epoch, size, _converted(request.topology_description))
        self._total_bytes = total
        self._backoffs.pop(group.id, None)

    def forget(self, group_id: str) -> None:
        stored = self._stored.pop(group_id, None)
        if stored is not None:
            self._total_bytes -= stored.size
        self._refused.pop(group_id, None)
        self._backoffs.pop(group_id, None)

    def add_to(self, row: described.DescribedGroup, group: StreamsGroup) -> None:
        """Put the description of the group's topology into the row that describes the group."""
        stored = self._stored.get(group.id)
        if stored is not None and group.topology is not None and stored.epoch == group.topology.epoch:
            row.topology_description = stored.description
            row.topology_description_status = AVAILABLE
        else:
            row.topology_description_status = NOT_STORED


def _failed(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED, message)


def _converted(description: sent.TopologyDescription) -> described.TopologyDescription:
    return described.TopologyDescription(
        subtopologies=[
            described.TopologyDescriptionSubtopology(
                subtopology_id=subtopology.subtopology_id, nodes=[_node(node) for node in subtopology.nodes]
            )
            for subtopology in description.subtopologies
        ],
        global_stores=[
            described.TopologyDescriptionGlobalStore(source=_node(store.source), processor=_node(store.processor))
            for store in description.global_stores
        ],
    )


def _node(node: sent.TopologyDescriptionNode) -> described.TopologyDescriptionNode:
    return described.TopologyDescriptionNode(
        name=node.name,
        node_type=node.node_type,
        source_topics=node.source_topics,
        sink_topic=node.sink_topic,
        stores=node.stores,
        successors=node.successors,
    )
