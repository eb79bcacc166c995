"""Drives classic groups as a shard's host does: writes and replays records, hands answers out, lets time pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from ottla.cluster import ClusterImage
from ottla.config import BrokerConfig, GroupConfig
from ottla.groups import Call, GroupRecord, decode_record, encode_record
from ottla.groups.classic_group import ClassicGroup
from ottla.groups.classic_groups import ClassicGroups
from ottla.groups.state import ShardState
from ottla.machine import CoordinatorDecision
from ottla.wire import Message, encode_bytes
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.records.group_metadata_key import GroupMetadataKey
from ottla.wire.messages.records.group_metadata_value import GroupMetadataValue
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

GROUP = "group"
RANGE = (("range", b"\x00\x01\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"),)
"""One assignor, and a subscription to the topic "t"."""
NODE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "log.dirs": "/data",
}


@cache
def broker_config(settings: tuple[tuple[str, str], ...]) -> BrokerConfig:
    return BrokerConfig.parse(NODE | dict(settings))


@dataclass(eq=False)
class Request:
    """A request that was sent, and its response once it has come."""

    api_version: int
    response: Any = None

    @property
    def code(self) -> ErrorCode:
        assert self.response is not None, "still waiting"
        return ErrorCode(self.response.error_code)

    @property
    def is_waiting(self) -> bool:
        return self.response is None

    def answer(self, response: Message) -> None:
        assert self.response is None, "answered twice"
        encode_bytes(response, self.api_version)
        self.response = response


class Classic:
    def __init__(self, **settings: Any) -> None:
        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.config = broker_config(tuple(sorted(named.items())))
        self.now = 1_000_000
        self.timestamp = 1_700_000_000_000
        self.written: list[tuple[bytes, bytes | None]] = []
        self.write_error: ErrorCode | None = None
        """What the log says to the next records."""
        self.requests: list[Request] = []
        self.rng = Random(7)
        self._start()

    def _start(self) -> None:
        self.state = ShardState(
            image=ClusterImage("cluster"),
            config=lambda: self.config,
            group_config=lambda group_id: GroupConfig.parse({}, self.config),
            rng=self.rng,
        )
        self.groups = ClassicGroups(self.state)

    # --- requests

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 9,
        group: str = GROUP,
        client_id: str = "client",
    ) -> Request:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        )
        return self._send(self.groups.join, request, version, client_id)

    def join_as_new(self, **options: Any) -> tuple[str, Request]:
        """Join as a client does: ask for an id, then join with it."""
        asked = self.join(**options)
        assert asked.code is ErrorCode.MEMBER_ID_REQUIRED
        member_id: str = asked.response.member_id
        return member_id, self.join(member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
        version: int = 5,
        group: str = GROUP,
    ) -> Request:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=assignment)
                for each, assignment in (assignments or {}).items()
            ],
        )
        return self._send(self.groups.sync, request, version)

    def heartbeat(
        self, member_id: str, generation: int, *, instance: str | None = None, group: str = GROUP
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return self._send(self.groups.heartbeat, request, 4).code

    def leave(self, *members: tuple[str, str | None], version: int = 5, group: str = GROUP) -> Request:
        """Members as (member id, group instance id)."""
        request = LeaveGroupRequest(group_id=group)
        if version < 3:
            ((request.member_id, _),) = members
        else:
            request.members = [MemberIdentity(member_id=id, group_instance_id=instance) for id, instance in members]
        return self._send(self.groups.leave, request, version)

    def leave_codes(self, *members: tuple[str, str | None], **options: Any) -> list[ErrorCode]:
        response: LeaveGroupResponse = self.leave(*members, **options).response
        return [ErrorCode(member.error_code) for member in response.members]

    # --- whole phases

    def stable(self, count: int = 1, **options: Any) -> list[str]:
        """A group of so many dynamic members, with an assignment each; the first one leads."""
        joining = [self.join_as_new(**options) for _ in range(count)]
        self.initial_delay()
        ids = [member_id for member_id, _ in joining]
        self.sync_all(ids)
        return ids

    def initial_delay(self) -> None:
        """Let the initial rebalance come to its end."""
        while self.group.state == "PreparingRebalance":
            self.advance(3000)

    def sync_all(self, member_ids: list[str]) -> list[Request]:
        group = self.group
        assert group.leader is not None
        followers = [self.sync(each, group.generation) for each in member_ids if each != group.leader]
        assignments = {each: b"for " + each.encode() for each in group.members}
        return [*followers, self.sync(group.leader, group.generation, assignments)]

    # --- the world

    @property
    def group(self) -> ClassicGroup:
        group = self.state.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    def advance(self, milliseconds: int) -> None:
        """Let time pass, with everything that is due on the way."""
        end = self.now + milliseconds
        while (due := self.state.timers.deadline()) is not None and due <= end:
            self._move_to(max(due, self.now))
            operation = self.state.timers.pop_due(self.now)
            assert operation is not None
            self._carry_out(operation(self.now, self.timestamp), None, self.call())
        self._move_to(end)

    def restart(self, **settings: Any) -> None:
        """What a coordinator knows after it has read the log again."""
        if settings:
            named = {name.replace("_", "."): str(value) for name, value in settings.items()}
            self.config = broker_config(tuple(sorted(named.items())))
        self._start()
        for key, value in self.written:
            record = decode_record(key, value)
            assert record is not None
            self._replay(record)
        self.groups.loaded(self.now, self.timestamp)

    def call(self, version: int = 0, client_id: str = "client", waiter: Any = None) -> Call:
        return Call(
            now=self.now,
            timestamp=self.timestamp,
            api_version=version,
            client_id=client_id,
            client_host="/127.0.0.1",
            waiter=waiter,
        )

    def last_written(self) -> GroupMetadataValue | None:
        record = decode_record(*self.written[-1])
        assert record is not None
        assert record.value is None or isinstance(record.value, GroupMetadataValue)
        return record.value

    def _move_to(self, now: int) -> None:
        self.timestamp += now - self.now
        self.now = now

    def _send(self, command: Any, message: Message, version: int, client_id: str = "client") -> Request:
        request = Request(version)
        self.requests.append(request)
        call = self.call(version, client_id, request)
        self._carry_out(command(message, call), request, call)
        return request

    def _carry_out(self, decision: CoordinatorDecision[Any], caller: Request | None, call: Call) -> None:
        if decision.records and self.write_error is not None:
            error, self.write_error = KafkaError(self.write_error), None
            assert decision.refused is not None
            decision = decision.refused(error, call)
            assert not decision.records
        for record in decision.records:
            self.written.append(encode_record(record))
            self._replay(record)
        if caller is not None and decision.reply is not None:
            caller.answer(decision.reply)
        for answer in decision.answers:
            assert isinstance(answer.response, JoinGroupResponse | SyncGroupResponse)
            answer.waiter.answer(answer.response)

    def _replay(self, record: GroupRecord) -> None:
        assert isinstance(record.key, GroupMetadataKey)
        assert record.value is None or isinstance(record.value, GroupMetadataValue)
        self.groups.replay(record.key, record.value)
