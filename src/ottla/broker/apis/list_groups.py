"""ListGroups v0-v5: the groups that this broker coordinates, by state (v4) and by type (v5)."""

from __future__ import annotations

from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator, gathered
from ottla.broker.serving.api import Api, Need
from ottla.groups.shard import GroupShard
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def list_groups(request: ListGroupsRequest, groups: GroupCoordinator, caller: Caller) -> Any:
    if groups.is_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    call = groups.call(caller)
    results = [
        hosted.run(GroupShard.list_groups, request, call, _refused, _groups) for hosted in groups.shards.values()
    ]
    sees_all = caller.is_allowed_on_cluster(AclOperation.DESCRIBE, is_logged=False)

    def answer(listed: list[ListedGroup]) -> ListGroupsResponse:
        if not sees_all:
            listed, _ = caller.split(
                AclOperation.DESCRIBE, AclResource.GROUP, listed, lambda group: group.group_id, is_logged=False
            )
        return ListGroupsResponse(groups=listed)

    return gathered(results, answer)


def _groups(request: ListGroupsRequest, response: ListGroupsResponse) -> list[ListedGroup]:
    return response.groups


def _refused(request: ListGroupsRequest, error: KafkaError) -> list[ListedGroup]:
    """The shard moved to another broker meanwhile, which lists its groups."""
    return []


api = Api(
    key=16,
    handler=list_groups,
    needs=(
        Need(AclOperation.DESCRIBE, AclResource.CLUSTER),
        Need(AclOperation.DESCRIBE, AclResource.GROUP),
    ),
)
