"""A streams group (KIP-1071): the state that its records define, and queries on it.

The group epoch rises when a member comes, goes or changes, when a topic of the topology changes, when the topology
becomes valid or invalid, and when a setting of the assignment changes. The target assignment follows it, and each
member moves to its target by itself (`reconciliation`).

    Empty         no members
    NotReady      topics of the topology are missing or do not fit each other
    Assigning     the target assignment is older than the group
    Reconciling   members are on their way to the target assignment
    Stable        every member has its tasks
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from ottla.groups.records import GroupRecord
from ottla.groups.state import PartitionCheck
from ottla.groups.streams.group_records import group_tombstones
from ottla.groups.streams.progress import Progress
from ottla.groups.streams.reconciliation import STABLE, TaskOwners
from ottla.groups.streams.tasks import NO_MEMBER_TASKS, MemberTasks, Target, TaskId
from ottla.groups.streams.topology import ConfiguredTopology, required_topics, source_subtopologies
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_groups import DescribedGroup
from ottla.wire.messages.records.streams_group_topology_value import StreamsGroupTopologyValue

STREAMS_PROTOCOL = "streams"
NO_TOPOLOGY_EPOCH = -1
FIRST_COMMIT_VERSION = 9
"""Of OffsetCommit: from this version on the generation may be a member epoch."""


@dataclass(frozen=True, slots=True)
class StreamsMember:
    id: str
    epoch: int = 0
    previous_epoch: int = 0
    state: int = STABLE
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: tuple[str, int] | None = None
    """Host and port of the application's own queries (Interactive Queries), if it has one."""
    tags: Mapping[str, str] = field(default_factory=dict)
    assigned: MemberTasks = NO_MEMBER_TASKS
    revoking: MemberTasks = NO_MEMBER_TASKS
    """Tasks that it must give up and still has."""

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state == STABLE and self.epoch == epoch


class StreamsGroup:
    """Read it freely; only `replay` of records changes it, except for fields marked as not persisted."""

    type = "streams"
    protocol_type = STREAMS_PROTOCOL

    def __init__(self, id: str) -> None:
        self.id = id
        self.epoch = 1
        self.metadata_hash = 0
        self.validated_topology_epoch = 0
        self.assignment_configs: dict[str, str] = {}
        """The settings that the last target assignment was made with."""
        self.assignment_epoch = 1
        self.assignment_timestamp = 0
        """When the target assignment was computed, in wall clock milliseconds; 0 if it never was."""
        self.members: dict[str, StreamsMember] = {}
        self.targets: dict[str, Target] = {}
        self.topology: StreamsGroupTopologyValue | None = None
        self.source_topics: dict[str, str] = {}
        """The subtopology that reads a topic."""
        self.required_topics: frozenset[str] = frozenset()
        self._active: dict[TaskId, str] = {}
        self._standby: dict[TaskId, list[str]] = {}
        self._warmup: dict[TaskId, list[str]] = {}
        self.owners = TaskOwners(self._active, self._standby, self._warmup)
        # Not persisted.
        self.configured: ConfiguredTopology | None = None
        self.refreshed_epoch: int | None = None
        """The group epoch for which the topics were last checked; None: check again."""
        self.shutdown_member_id: str | None = None
        """The member that asked all others to shut the application down."""
        self.endpoint_epoch = 0
        """Rises when a member with an endpoint gets other tasks."""
        self.progress = Progress()
        """Of warm-up tasks."""

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def needs_refresh(self) -> bool:
        return self.refreshed_epoch is None or self.epoch < self.refreshed_epoch

    def member(self, member_id: str) -> StreamsMember:
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.id}.")
        return member

    # Changes by records.

    def set_topology(self, topology: StreamsGroupTopologyValue | None) -> None:
        self.topology = topology
        self.source_topics = {} if topology is None else source_subtopologies(topology)
        self.required_topics = frozenset() if topology is None else frozenset(required_topics(topology))
        self.configured = None
        self.refreshed_epoch = None

    def update_member(self, member: StreamsMember) -> None:
        self._disown(self.members.get(member.id))
        self.members[member.id] = member
        for tasks in (member.assigned, member.revoking):
            self._active.update(dict.fromkeys(tasks.active, member.process_id))
            for owners, copies in ((self._standby, tasks.standby), (self._warmup, tasks.warmup)):
                for task in copies:
                    owners.setdefault(task, []).append(member.process_id)

    def remove_member(self, member_id: str) -> None:
        self._disown(self.members.pop(member_id, None))
        self.progress.forget(member_id)
        if not self.members:
            self.shutdown_member_id = None

    def _disown(self, member: StreamsMember | None) -> None:
        if member is None:
            return
        for tasks in (member.assigned, member.revoking):
            for task in tasks.active:
                if self._active.get(task) == member.process_id:
                    del self._active[task]
            for owners, copies in ((self._standby, tasks.standby), (self._warmup, tasks.warmup)):
                for task in copies:
                    of_task = owners[task]
                    of_task.remove(member.process_id)
                    if not of_task:
                        del owners[task]

    # The interface of every group.

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, is_transactional: bool, api_version: int
    ) -> PartitionCheck | None:
        if generation < 0 and not self.members:
            return None  # an admin, or a consumer that assigns itself
        if is_transactional and generation == -1 and member_id == "" and instance_id is None:
            return None  # a producer from before KIP-447
        member = self.member(member_id)
        if not is_transactional and api_version < FIRST_COMMIT_VERSION:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the streams group protocol",
            )
        if generation == member.epoch:
            return None
        if generation > member.epoch:
            raise _stale(f"Received member epoch {generation} is newer than current member epoch {member.epoch}.")
        if self.topology is None:
            raise _stale("Topology is not available for offset commit validation.")
        return partial(self._check_partition, member, generation)

    def _check_partition(self, member: StreamsMember, epoch: int, topic: str, topic_id: bytes, partition: int) -> None:
        """A commit with an older epoch is valid for tasks that the member had in that epoch already."""
        subtopology_id = self.source_topics.get(topic)
        if subtopology_id is None:
            raise _stale(f"Topic {topic} is not in the topology.")
        task = TaskId(subtopology_id, partition)
        since = member.assigned.active.get(task)
        if since is None:
            since = member.revoking.active.get(task)
        if since is None:
            raise _stale(f"Task {subtopology_id}-{partition} is not assigned or pending revocation for member.")
        if epoch < since:
            raise _stale(
                f"Received member epoch {epoch} is older than assignment epoch {since} for task "
                f"{subtopology_id}-{partition}."
            )

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.epoch:
            raise _stale(
                f"The received member epoch {member_epoch} does not match the expected member epoch {member.epoch}."
            )

    def check_offset_delete(self) -> None:
        """Offsets of topics that the topology does not read may be deleted at any time."""

    def check_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and topic in self.source_topics

    def tombstones(self) -> list[GroupRecord]:
        return group_tombstones(self.id, self.members)

    def expiry_base(self, commit_timestamp: int) -> int | None:
        return commit_timestamp

    def describe(self) -> DescribedGroup:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.id} is not a classic group.")


def _stale(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, message)
