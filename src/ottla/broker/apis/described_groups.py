"""What the descriptions of consumer, share and streams groups have in common: groups and topics that a caller may not
see are refused, the others are asked of their shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ottla.broker.caller import Caller
from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError


class DescribedKind(NamedTuple):
    """One kind of group: the shard's command, the classes of rows and responses, and the topics that a row names."""

    command: Callable[..., Any]
    row: Callable[..., Any]
    response: Callable[..., Any]
    topics: Callable[[Any], Iterable[str]]
    why_hidden: str = "The group has described topic(s) that the client is not authorized to describe."


def describe_groups(
    kind: DescribedKind,
    request: Any,
    request_for: Callable[[list[str]], Any],
    is_enabled: bool,
    groups: GroupCoordinator,
    caller: Caller,
) -> Any:
    """The response for the groups of a request, or an awaitable for it."""

    def refused(asked: Any, error: KafkaError) -> list[Any]:
        return [kind.row(group_id=group_id, error_code=error.code) for group_id in asked.group_ids]

    if not is_enabled:
        return kind.response(groups=refused(request, KafkaError(ErrorCode.UNSUPPORTED_VERSION)))
    allowed, denied = caller.split(AclOperation.DESCRIBE, AclResource.GROUP, request.group_ids, str)
    first = refused(request_for(denied), KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    first += [kind.row(group_id=one, error_code=ErrorCode.INVALID_GROUP_ID) for one in allowed if not one]

    def without_hidden(group: Any) -> Any:
        """The group, if the caller may describe all of its topics; otherwise an error without its content."""
        if all(map(caller.may_describe_topic, set(kind.topics(group)))):
            return group
        return kind.row(
            group_id=group.group_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message=kind.why_hidden,
        )

    def answer(described: list[Any]) -> Any:
        if request.include_authorized_operations:
            for group in described:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = caller.authorized_operations(AclResource.GROUP, group.group_id)
        return kind.response(groups=first + [without_hidden(group) for group in described])

    return groups.run_for_each(
        [group_id for group_id in allowed if group_id],
        kind.command,
        request_for,
        groups.call(caller),
        refused,
        lambda _, response: response.groups,
        answer,
    )
