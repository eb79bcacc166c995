"""Responses to members of classic groups, in the version of the request."""

from __future__ import annotations

from ottla.groups.classic_group import ClassicGroup
from ottla.groups.classic_member import ParkedRequest
from ottla.machine import Answer
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

_NULL_PROTOCOL_NAME_VERSION = 7
"""Older versions of JoinGroup have "" for no protocol, not null."""
_BATCHED_LEAVE_VERSION = 3

_WRITE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def write_error(code: ErrorCode) -> ErrorCode:
    """The member's error if the group's record could not be written because of `code`."""
    return _WRITE_ERRORS.get(code, code)


def join_error(code: ErrorCode, api_version: int, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code,
        member_id=member_id,
        protocol_name=None if api_version >= _NULL_PROTOCOL_NAME_VERSION else "",
    )


def joined(
    group: ClassicGroup,
    member_id: str,
    api_version: int,
    *,
    members: list[JoinGroupResponseMember] | None = None,
    leader: str | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """The generation as a JoinGroup response; only the leader gets the members."""
    protocol_name = group.protocol_name
    if api_version < _NULL_PROTOCOL_NAME_VERSION:
        protocol_name = protocol_name or ""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type or None,
        protocol_name=protocol_name,
        leader=leader or group.leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members or [],
    )


def refuse_join(waiting: ParkedRequest, code: ErrorCode, member_id: str = "") -> Answer:
    return Answer(waiting.waiter, join_error(code, waiting.api_version, member_id))


def synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type or None, protocol_name=group.protocol_name, assignment=assignment
    )


def sync_error(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)


def refuse_sync(waiting: ParkedRequest, code: ErrorCode) -> Answer:
    return Answer(waiting.waiter, sync_error(code))


def heartbeat_answer(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def leaving(request: LeaveGroupRequest, api_version: int) -> list[MemberIdentity]:
    """The members that leave; before version 3 only the sender."""
    if api_version >= _BATCHED_LEAVE_VERSION:
        return request.members
    return [MemberIdentity(member_id=request.member_id)]


def left(members: list[MemberResponse], api_version: int) -> LeaveGroupResponse:
    """The result for each leaving member; before version 3 there is one, which is the response's error."""
    if api_version >= _BATCHED_LEAVE_VERSION:
        return LeaveGroupResponse(members=members)
    return LeaveGroupResponse(error_code=members[0].error_code)
