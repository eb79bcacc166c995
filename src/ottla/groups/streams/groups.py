"""The streams groups of a shard (KIP-1071): StreamsGroupHeartbeat, and the records of the groups.

A member joins with epoch 0 and the topology of its application; later heartbeats show that it is alive and list its
tasks; epoch -1 leaves. The answer has the member's epoch, its tasks when they change, and as statuses the reasons why
the application cannot run. Internal topics that are missing are part of the reply: the broker creates them with the
caller's rights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from ottla.cluster import ClusterImage, ImageChanges
from ottla.groups.call import Call
from ottla.groups.metadata_hash import group_hash, topic_hash
from ottla.groups.records import GroupRecord
from ottla.groups.state import ShardState
from ottla.groups.streams.assignment import STICKY, assign, assignment_configs, assignor_name
from ottla.groups.streams.descriptions import describe_streams_group
from ottla.groups.streams.endpoints import partitions_by_endpoint
from ottla.groups.streams.group import StreamsGroup, StreamsMember
from ottla.groups.streams.group_records import (
    current_assignment_record,
    group_epoch_record,
    member_metadata_record,
    recorded_topology,
    target_assignment_metadata_record,
    target_assignment_record,
    topology_record,
)
from ottla.groups.streams.reconciliation import UNREVOKED_TASKS, reconcile
from ottla.groups.streams.replay import replay_record
from ottla.groups.streams.requests import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    check_epoch,
    check_ids,
    check_request,
    check_tasks,
    owned_tasks,
    updated,
)
from ottla.groups.streams.sessions import HeartbeatReply, StreamsSessions
from ottla.groups.streams.statuses import assignment_delayed, lasting_statuses, missing_tags, stale_topology
from ottla.groups.streams.tasks import NO_TARGET, Target, rows
from ottla.groups.streams.topology import (
    STALE_TOPOLOGY,
    ConfiguredTopology,
    check_topology,
    configure,
    is_same,
    required_topics,
)
from ottla.groups.streams.topology_descriptions import TopologyDescriptions
from ottla.groups.streams.warmups import refined_target
from ottla.machine import CoordinatorDecision
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.records.streams_group_metadata_key import StreamsGroupMetadataKey
from ottla.wire.messages.records.streams_group_topology_value import StreamsGroupTopologyValue
from ottla.wire.messages.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from ottla.wire.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatResponseTaskIds,
)
from ottla.wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)

FIRST_VERSION_WITH_DESCRIPTIONS = 1
FIRST_VERSION_WITH_PROGRESS = 1
REBALANCES = "streams-group-rebalance"
PENDING_HEARTBEAT_INTERVAL_MS = 500
"""The interval of members that can expect other tasks or topics soon: with the usual 5 s a new application would
wait three times as long for its first record."""


class StreamsGroups:
    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._topic_hashes: dict[str, int] = {}
        self._descriptions = TopologyDescriptions()
        self._sessions = StreamsSessions(state)

    # Commands; errors are answered, never raised.

    def heartbeat(self, request: StreamsGroupHeartbeatRequest, call: Call) -> CoordinatorDecision[HeartbeatReply]:
        group = self._state.groups.get(request.group_id)
        if isinstance(group, StreamsGroup) and self._changes_nothing(group, request, call):
            response = self._alive(group, group.members[request.member_id], call, is_pending=False)
            response.endpoint_information_epoch = group.endpoint_epoch
            self._ask_for_description(response, group, call)
            return CoordinatorDecision([], HeartbeatReply(response))
        try:
            check_request(request)
            if request.member_epoch == LEAVING_EPOCH:
                return self._leave(request, call)
            return self._heartbeat(request, call)
        except KafkaError as error:
            response = StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
            return CoordinatorDecision([], HeartbeatReply(response))

    def describe(self, request: StreamsGroupDescribeRequest) -> list[DescribedGroup]:
        described = []
        for group_id in request.group_ids:
            try:
                group = self.group(group_id)
                described.append(describe_streams_group(group, self._assignor(group_id)))
                if request.include_topology_description:
                    self._descriptions.add_to(described[-1], group)
            except KafkaError as error:
                described.append(DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id))
        return described

    def update_topology_description(
        self, request: StreamsGroupTopologyDescriptionUpdateRequest, call: Call
    ) -> CoordinatorDecision[StreamsGroupTopologyDescriptionUpdateResponse]:
        response = StreamsGroupTopologyDescriptionUpdateResponse()
        try:
            if self._state.config.group_streams_topology_description_plugin_class is None:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    "The broker has no streams group topology description plugin configured.",
                )
            check_ids(request.group_id, request.member_id)
            self._descriptions.store(self.group(request.group_id), request, call.now)
        except KafkaError as error:
            response.error_code, response.error_message = error.code, error.message
        return CoordinatorDecision([], response)

    def group(self, group_id: str) -> StreamsGroup:
        group = self._state.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        reason = "not found." if group is None else "is not a streams group."
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}")

    # Heartbeats.

    def _changes_nothing(self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest, call: Call) -> bool:
        """Whether it is the usual heartbeat: from a member that has its target, and reports nothing new."""
        member = group.members.get(request.member_id)
        return (
            member is not None
            and request.member_epoch == group.epoch == group.assignment_epoch
            and member.is_reconciled_to(group.epoch)
            and group.configured is not None
            and group.configured.is_ready
            and not group.needs_refresh
            and group.shutdown_member_id is None
            and self._assignor(group.id) == STICKY
            and not self._missing_tags(group, member, call)
            and not request.shutdown_application
            and request.topology is None
            and request.active_tasks is None
            and request.standby_tasks is None
            and request.warmup_tasks is None
            and request.task_offsets is None
            and request.task_end_offsets is None
            and request.endpoint_information_epoch == group.endpoint_epoch
            and group.assignment_configs == assignment_configs(self._state.group_config(group.id))
            and updated(member, request, call) == member
            and request.instance_id is None
            and request.rack_id != ""
            and ("streams-initial", group.id) not in self._state.timers
        )

    def _heartbeat(self, request: StreamsGroupHeartbeatRequest, call: Call) -> CoordinatorDecision[HeartbeatReply]:
        group, records = self._group_of(request)
        is_joining = request.member_epoch == JOINING_EPOCH
        before = group.members.get(request.member_id) if is_joining else group.member(request.member_id)
        self._check_size(group, before)
        if before is not None:
            check_epoch(before, request)
        member = updated(before or StreamsMember(request.member_id), request, call)
        is_changed = member != before
        if is_changed:
            records.append(member_metadata_record(group.id, member))
        topology = self._topology(group, request, records)
        statuses: list[Status] = []
        if member.topology_epoch < topology.epoch:
            statuses.append(stale_topology(member, topology.epoch))
        metadata_hash, configured = self._configured(group, topology)
        is_changed |= self._note_progress(group, before, request, call)
        if configured.is_ready:
            check_tasks(request, configured.subtopologies)
        validated_epoch = topology.epoch if configured.is_ready else -1
        configs = assignment_configs(self._state.group_config(group.id))
        epoch = group.epoch
        if (
            is_changed
            or metadata_hash != group.metadata_hash
            or validated_epoch != group.validated_topology_epoch
            or configs != group.assignment_configs
        ):
            epoch += 1
            records.append(group_epoch_record(group.id, epoch, metadata_hash, validated_epoch, configs))
            self._state.counts[REBALANCES] += 1
        group.refreshed_epoch = epoch
        if not group.members:
            self._delay_first_assignment(group.id, call)
        target_epoch, target = self._target(group, member, epoch, configured, configs, records, statuses, call)
        if self._assignor(group.id) != STICKY:
            warmup_count = self._state.group_config(group.id).streams_num_warmup_replicas
            target = refined_target(group, member, target, configured.subtopologies, warmup_count)
        assigned_before = member.assigned
        member = self._reconciled(group, member, target_epoch, target, request, records, call)
        if request.shutdown_application and group.shutdown_member_id is None:
            group.shutdown_member_id = member.id
        is_pending = bool(configured.missing) or epoch > target_epoch or not member.is_reconciled_to(target_epoch)
        response = self._alive(group, member, call, is_pending=is_pending)
        is_moved = is_joining or member.assigned != assigned_before
        owned = owned_tasks(request)
        # A member that lists other tasks than it is to have may not have got the answer with those.
        if is_moved or (owned is not None and not member.assigned.is_all_of(owned)):
            response.active_tasks = rows(member.assigned.active, StreamsGroupHeartbeatResponseTaskIds)
            response.standby_tasks = rows(member.assigned.standby, StreamsGroupHeartbeatResponseTaskIds)
            response.warmup_tasks = rows(member.assigned.warmup, StreamsGroupHeartbeatResponseTaskIds)
        if is_moved and member.endpoint is not None:
            group.endpoint_epoch += 1
        if group.endpoint_epoch != request.endpoint_information_epoch:
            response.partitions_by_user_endpoint = partitions_by_endpoint(group, member, topology, self._state.image)
        if group.id in self._state.groups:
            response.endpoint_information_epoch = group.endpoint_epoch
        response.status = [
            *statuses,
            *lasting_statuses(group, configured),
            *self._missing_tags(group, member, call),
        ]
        if not any(status.status_code == STALE_TOPOLOGY for status in statuses):
            self._ask_for_description(response, group, call)
        return CoordinatorDecision(records, HeartbeatReply(response, configured.missing))

    def _group_of(self, request: StreamsGroupHeartbeatRequest) -> tuple[StreamsGroup, list[GroupRecord]]:
        """The group that a heartbeat is for. An empty classic group becomes a streams group: returns its tombstones,
        too.
        """
        found = self._state.groups.get(request.group_id)
        if request.member_epoch == JOINING_EPOCH:
            if found is None:
                return StreamsGroup(request.group_id), []
            if found.type == "classic" and found.is_empty:
                return StreamsGroup(request.group_id), found.tombstones()
        elif found is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {request.group_id} not found.")
        return self.group(request.group_id), []

    def _check_size(self, group: StreamsGroup, before: StreamsMember | None) -> None:
        max_size = self._state.config.group_streams_max_size
        if before is None and len(group.members) >= max_size:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {max_size} members.",
            )

    def _topology(
        self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest, records: list[GroupRecord]
    ) -> StreamsGroupTopologyValue:
        """The group's topology, which its first member tells. A later member may have an older one."""
        if request.topology is None:
            if group.topology is None:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Streams group {group.id} has no topology.")
            return group.topology
        sent = recorded_topology(request.topology)
        check_topology(sent)
        if group.topology is None:
            records.append(topology_record(group.id, sent))
            return sent
        if group.topology.epoch <= sent.epoch and not is_same(group.topology, sent):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return group.topology

    def _configured(self, group: StreamsGroup, topology: StreamsGroupTopologyValue) -> tuple[int, ConfiguredTopology]:
        """The hash of the topics, and the topology against them; both are as before unless topics changed."""
        if group.configured is not None and not group.needs_refresh:
            return group.metadata_hash, group.configured
        metadata_hash = self._metadata_hash(required_topics(topology))
        configured = group.configured
        if configured is None or metadata_hash != group.metadata_hash or not configured.is_ready:
            topics = self._state.image.topics_by_name
            existing = {name: len(topics[name].partitions) for name in required_topics(topology) if name in topics}
            configured = group.configured = configure(topology, existing)
        return metadata_hash, configured

    def _alive(
        self, group: StreamsGroup, member: StreamsMember, call: Call, *, is_pending: bool
    ) -> StreamsGroupHeartbeatResponse:
        """The member sent a heartbeat: its session begins again. `is_pending`: it can expect other tasks soon."""
        config = self._state.group_config(group.id)
        self._sessions.begin(group.id, member.id, call.now)
        interval_ms = config.streams_heartbeat_interval_ms
        if is_pending:
            interval_ms = min(interval_ms, PENDING_HEARTBEAT_INTERVAL_MS)
        response = StreamsGroupHeartbeatResponse(
            member_id=member.id, member_epoch=member.epoch, heartbeat_interval_ms=interval_ms
        )
        if call.api_version >= FIRST_VERSION_WITH_PROGRESS:
            response.task_offset_interval_ms = config.streams_task_offset_interval_ms
            response.acceptable_recovery_lag = config.streams_acceptable_recovery_lag
        return response

    def _assignor(self, group_id: str) -> str:
        return assignor_name(self._state.group_config(group_id), self._state.config)

    def _note_progress(
        self, group: StreamsGroup, member: StreamsMember | None, request: StreamsGroupHeartbeatRequest, call: Call
    ) -> bool:
        """Whether a process has restored a warm-up task, which may move then."""
        if call.api_version < FIRST_VERSION_WITH_PROGRESS:
            return False
        group.progress.reporting.add(request.member_id)
        lag = self._state.group_config(group.id).streams_acceptable_recovery_lag
        return member is not None and group.progress.note(member, request, lag)

    def _missing_tags(self, group: StreamsGroup, member: StreamsMember, call: Call) -> list[Status]:
        """Clients of version 0 do not know this status."""
        if call.api_version < FIRST_VERSION_WITH_PROGRESS:
            return []
        return missing_tags(member, self._state.group_config(group.id).streams_rack_aware_assignment_tags)

    def _ask_for_description(self, response: StreamsGroupHeartbeatResponse, group: StreamsGroup, call: Call) -> None:
        """A group's first heartbeat does not ask: its records create the group."""
        if (
            call.api_version >= FIRST_VERSION_WITH_DESCRIPTIONS
            and group.topology is not None
            and self._state.config.group_streams_topology_description_plugin_class is not None
        ):
            response.topology_description_required = self._descriptions.ask_for(group, group.topology.epoch, call.now)

    # The target assignment.

    def _delay_first_assignment(self, group_id: str, call: Call) -> None:
        """The first assignment of a group waits for more members than the first."""
        delay_ms = self._state.group_config(group_id).streams_initial_rebalance_delay_ms
        if delay_ms > 0:
            self._state.timers.schedule_if_absent(
                ("streams-initial", group_id), call.now + delay_ms, partial(self._assign_delayed, group_id)
            )

    def _assign_delayed(self, group_id: str, now: int, timestamp: int) -> CoordinatorDecision[None]:
        group = self._state.groups.get(group_id)
        records: list[GroupRecord] = []
        if (
            isinstance(group, StreamsGroup)
            and group.members
            and group.topology is not None
            and group.epoch > group.assignment_epoch
        ):
            _, configured = self._configured(group, group.topology)
            configs = group.assignment_configs
            self._target(group, None, group.epoch, configured, configs, records, [], Call(now, timestamp))
        return CoordinatorDecision(records, None)

    def _target(
        self,
        group: StreamsGroup,
        member: StreamsMember | None,
        epoch: int,
        configured: ConfiguredTopology,
        configs: Mapping[str, str],
        records: list[GroupRecord],
        statuses: list[Status],
        call: Call,
    ) -> tuple[int, Target]:
        """A new target assignment if it is due: its epoch, and the member's target."""
        if ("streams-initial", group.id) in self._state.timers:
            statuses.append(assignment_delayed("initial rebalance delay"))
            return group.assignment_epoch, NO_TARGET
        last = NO_TARGET if member is None else group.targets.get(member.id, NO_TARGET)
        if epoch <= group.assignment_epoch:
            return group.assignment_epoch, last
        if not self._may_compute(group, call.timestamp):
            statuses.append(assignment_delayed("assignment interval"))
            return group.assignment_epoch, last
        members = group.members if member is None else {**group.members, member.id: member}
        targets = assign(members, group.targets, configured, configs)
        for id, target in targets.items():
            if group.targets.get(id) != target:
                records.append(target_assignment_record(group.id, id, target))
        records.append(target_assignment_metadata_record(group.id, epoch, call.timestamp))
        return epoch, NO_TARGET if member is None else targets[member.id]

    def _may_compute(self, group: StreamsGroup, timestamp: int) -> bool:
        """Whether the last target assignment is old enough: a group that many members join at once is assigned in bulk.
        A wall clock that was set back does not delay it."""
        interval_ms = self._state.group_config(group.id).streams_assignment_interval_ms
        return not group.assignment_timestamp or not 0 <= timestamp - group.assignment_timestamp < interval_ms

    def _reconciled(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        epoch: int,
        target: Target,
        request: StreamsGroupHeartbeatRequest,
        records: list[GroupRecord],
        call: Call,
    ) -> StreamsMember:
        """The member one step closer to its target."""
        if member.is_reconciled_to(epoch) and member.assigned.is_all_of(target):
            return member
        moved = reconcile(member, epoch, target, owned_tasks(request), group.owners)
        if moved != member:
            records.append(current_assignment_record(group.id, moved))
            if moved.state == UNREVOKED_TASKS:
                self._sessions.await_revocation(group.id, moved, call.now)
            else:
                self._sessions.revoked(group.id, moved.id)
        return moved

    # Members go.

    def _leave(self, request: StreamsGroupHeartbeatRequest, call: Call) -> CoordinatorDecision[HeartbeatReply]:
        group = self.group(request.group_id)
        member = group.member(request.member_id)
        if request.shutdown_application and group.shutdown_member_id is None:
            group.shutdown_member_id = member.id
        response = StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=LEAVING_EPOCH)
        return self._sessions.fence(group, member, HeartbeatReply(response))

    # Records, and the world.

    def loaded(self, now: int) -> None:
        """All records are replayed: members have a whole session for their next heartbeat."""
        for group in self._state.groups.values():
            if isinstance(group, StreamsGroup):
                for member in group.members.values():
                    self._sessions.resume(group, member, now)

    def metadata_changed(self, changes: ImageChanges, image: ClusterImage) -> None:
        """Groups whose topology has a changed topic check their topics at the next heartbeat."""
        names = {topic.name for topic in (*changes.topics_created.values(), *changes.topics_deleted.values())}
        for (topic_id, index), before in changes.partitions_changed.items():
            topic = image.topics_by_id.get(topic_id)
            if topic is not None:
                after = topic.partitions.get(index)
                if before is None or after is None or before.replicas != after.replicas:
                    names.add(topic.name)
        for name in names:
            self._topic_hashes.pop(name, None)
        for group in self._state.groups.values():
            if isinstance(group, StreamsGroup) and not names.isdisjoint(group.required_topics):
                group.refreshed_epoch = None

    def replay(self, key: Any, value: Any) -> None:
        """Apply a record of a streams group. Tombstones of unknown things are ignored."""
        group = self._state.groups.get(key.group_id)
        if not isinstance(group, StreamsGroup):
            if value is None:
                return
            group = self._state.groups[key.group_id] = StreamsGroup(key.group_id)
        if type(key) is StreamsGroupMetadataKey and value is None:
            del self._state.groups[group.id]
            self._descriptions.forget(group.id)
        else:
            replay_record(group, key, value)

    def _metadata_hash(self, topics: Iterable[str]) -> int:
        image = self._state.image
        hashes = []
        for name in sorted(topics):
            topic = image.topics_by_name.get(name)
            if topic is not None:
                known = self._topic_hashes.get(name)
                if known is None:
                    known = self._topic_hashes[name] = topic_hash(topic, image)
                hashes.append(known)
        return group_hash(hashes)
