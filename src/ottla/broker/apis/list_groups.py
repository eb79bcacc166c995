"""ListGroups v0-v5: the groups that this broker coordinates, by state (v4) and by type (v5)."""

from __future__ import annotations

from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator, gathered
from ottla.broker.serving.api import Api
from ottla.groups.shard import GroupShard
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def list_groups(request: ListGroupsRequest, groups: GroupCoordinator, caller: Caller) -> Any:
    if groups.is_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    call = groups.call(caller)
    results = [
        hosted.run(GroupShard.list_groups, request, call, _refused, _groups) for hosted in groups.shards.values()
    ]
    return gathered(results, _answer)


def _groups(request: ListGroupsRequest, response: ListGroupsResponse) -> list[ListedGroup]:
    return response.groups


def _refused(request: ListGroupsRequest, error: KafkaError) -> list[ListedGroup]:
    """The shard has gone to another broker meanwhile: it is there that its groups are listed."""
    return []


def _answer(groups: list[ListedGroup]) -> ListGroupsResponse:
    return ListGroupsResponse(groups=groups)


api = Api(key=16, handler=list_groups)
