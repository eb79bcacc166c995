"""LeaveGroup v0-v5: members leave a classic group at once, not when their session ends; several from v3 on."""

from __future__ import annotations

from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.serving.api import Api, Need
from ottla.groups.shard import GroupShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

FIRST_BATCHED_VERSION = 3


def leave_group(request: LeaveGroupRequest, groups: GroupCoordinator, caller: Caller) -> Any:
    if not caller.is_allowed(AclOperation.READ, AclResource.GROUP, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    is_single = caller.api_version < FIRST_BATCHED_VERSION
    if is_single:
        request.members = [MemberIdentity(member_id=request.member_id)]
    finish = _single if is_single else None
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    refused = _single_refused if is_single else _refused
    return groups.run(request.group_id, GroupShard.leave_group, request, groups.call(caller), refused, finish)


def _refused(request: LeaveGroupRequest, error: KafkaError) -> LeaveGroupResponse:
    if error.code != ErrorCode.UNKNOWN_MEMBER_ID:
        return LeaveGroupResponse(error_code=error.code)
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error.code
            )
            for member in request.members
        ]
    )


def _single_refused(request: LeaveGroupRequest, error: KafkaError) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error.code)


def _single(request: LeaveGroupRequest, response: LeaveGroupResponse) -> LeaveGroupResponse:
    """Fill the response of old versions, which have one member and one error."""
    code = response.error_code
    if code == ErrorCode.NONE and response.members:
        code = response.members[0].error_code
    return LeaveGroupResponse(error_code=code)


api = Api(key=13, handler=leave_group, needs=(Need(AclOperation.READ, AclResource.GROUP),))
