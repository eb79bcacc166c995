"""Administrative requests as audit events: the requested changes and their results. A node records the requests of its
own clients, also those that it forwards; the active controller does not record forwarded ones. Settings are recorded by
name, refusals by code: a value or a message may contain a secret.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.broker.audit import AuditEvent
from ottla.wire.acls import AclOperation, AclResource, PatternType, Permission, name_of
from ottla.wire.apis import APIS
from ottla.wire.config_resources import ResourceType
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.audit import Audit
    from ottla.broker.caller import BoundHandler, Caller

MAX_CHANGES: Final = 10_000
"""At most so many events for one request; the last event counts the rest."""
SCRAM_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
UNKNOWN: Final = -2
"""The client disconnected before the answer: the change may have been made."""


class Change(NamedTuple):
    """One change that a request asks for; `code` is its result."""

    resource: str
    code: int
    details: dict[str, Any]


def audited(api_key: int, handler: BoundHandler, audit: Audit) -> BoundHandler:
    """Wraps a handler: it records an event for each requested change. Every other API's handler stays as it is."""
    changes = _CHANGES.get(api_key)
    if changes is None:
        return handler
    name = APIS[api_key].name

    def handle(request: Any, caller: Caller) -> Any:
        if not audit.is_on or getattr(request, "validate_only", False):
            return handler(request, caller)
        try:
            answer = handler(request, caller)
        except KafkaError as error:
            _record(audit, name, caller, _all_failed(changes, request, error.code))
            raise
        if inspect.isawaitable(answer):
            return finish(request, caller, answer)
        _record(audit, name, caller, changes(request, answer))
        return answer

    async def finish(request: Any, caller: Caller, answer: Any) -> Any:
        try:
            response = await answer
        except KafkaError as error:
            _record(audit, name, caller, _all_failed(changes, request, error.code))
            raise
        except asyncio.CancelledError:
            _record(audit, name, caller, _all_failed(changes, request, UNKNOWN))
            raise
        _record(audit, name, caller, changes(request, response))
        return response

    return handle


Changes = Callable[[Any, Any], Iterator[Change]]
"""(request, response) -> the requested changes. The response is None if there is none."""


def _all_failed(changes: Changes, request: Any, code: int) -> Iterator[Change]:
    return (one._replace(code=code) for one in changes(request, None))


def _record(audit: Audit, api_name: str, caller: Caller, changes: Iterator[Change]) -> None:
    count = 0
    for change in changes:
        count += 1
        if count <= MAX_CHANGES:
            audit.record(_event(api_name, caller, change))
    if count > MAX_CHANGES:
        left = Change("", ErrorCode.NONE, {"not_recorded_singly": count - MAX_CHANGES})
        audit.record(_event(api_name, caller, left))


def _event(api_name: str, caller: Caller, change: Change) -> AuditEvent:
    client = caller.client
    is_unknown = change.code == UNKNOWN
    return AuditEvent(
        kind="changed",
        principal=str(caller.principal),
        host=client.host,
        listener=client.listener,
        is_success=None if is_unknown else change.code == ErrorCode.NONE,
        operation=api_name,
        resource=change.resource,
        reason="the client left before the answer" if is_unknown else _code_name(change.code),
        details=change.details,
    )


def _code_name(code: int) -> str:
    if code == ErrorCode.NONE:
        return ""
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


# --- by API


def _create_topics(request: Any, response: Any) -> Iterator[Change]:
    codes = {} if response is None else {one.name: one.error_code for one in response.topics}
    for topic in request.topics:
        details: dict[str, Any] = {"partitions": topic.num_partitions, "replication_factor": topic.replication_factor}
        if topic.configs:
            details["settings"] = [one.name for one in topic.configs]
        yield Change(f"Topic:{topic.name}", codes.get(topic.name, 0), details)


def _delete_topics(request: Any, response: Any) -> Iterator[Change]:
    if response is not None:
        for one in response.responses:
            yield Change(f"Topic:{one.name or one.topic_id.hex()}", one.error_code, {})
        return
    for name in [*request.topic_names, *(one.name or one.topic_id.hex() for one in request.topics)]:
        yield Change(f"Topic:{name}", 0, {})


def _create_partitions(request: Any, response: Any) -> Iterator[Change]:
    codes = {} if response is None else {one.name: one.error_code for one in response.results}
    for topic in request.topics:
        yield Change(f"Topic:{topic.name}", codes.get(topic.name, 0), {"partitions": topic.count})


def _delete_records(request: Any, response: Any) -> Iterator[Change]:
    codes = {}
    if response is not None:
        codes = {
            (topic.name, one.partition_index): one.error_code for topic in response.topics for one in topic.partitions
        }
    for topic in request.topics:
        for one in topic.partitions:
            details = {"partition": one.partition_index, "before_offset": one.offset}
            yield Change(f"Topic:{topic.name}", codes.get((topic.name, one.partition_index), 0), details)


def _alter_configs(request: Any, response: Any) -> Iterator[Change]:
    codes = {}
    if response is not None:
        codes = {(one.resource_type, one.resource_name): one.error_code for one in response.responses}
    for resource in request.resources:
        kind = name_of(ResourceType, resource.resource_type).title().replace("_", "")
        code = codes.get((resource.resource_type, resource.resource_name), 0)
        details = {"settings": sorted({one.name for one in resource.configs})}
        yield Change(f"{kind}:{resource.resource_name}", code, details)


def _acl_details(one: Any, pattern_type: int) -> dict[str, Any]:
    return {
        "acl_principal": one.principal,
        "acl_host": one.host,
        "acl_operation": name_of(AclOperation, one.operation),
        "acl_permission": name_of(Permission, one.permission_type),
        "acl_pattern": name_of(PatternType, pattern_type),
    }


def _create_acls(request: Any, response: Any) -> Iterator[Change]:
    codes = [] if response is None else [one.error_code for one in response.results]
    for index, one in enumerate(request.creations):
        code = codes[index] if index < len(codes) else 0
        yield Change(_acl_resource(one), code, _acl_details(one, one.resource_pattern_type))


def _delete_acls(request: Any, response: Any) -> Iterator[Change]:
    if response is None:
        yield Change("", 0, {"filters": len(request.filters)})
        return
    for result in response.filter_results:
        if result.error_code:
            yield Change("", result.error_code, {})
        for one in result.matching_acls:
            yield Change(_acl_resource(one), one.error_code, _acl_details(one, one.pattern_type))


def _acl_resource(one: Any) -> str:
    kind = name_of(AclResource, one.resource_type).title().replace("_", "")
    return f"{kind}:{one.resource_name}"


def _alter_scram(request: Any, response: Any) -> Iterator[Change]:
    codes = {} if response is None else {one.user: one.error_code for one in response.results}
    for action, rows in (("set", request.upsertions), ("removed", request.deletions)):
        for one in rows:
            details = {"password": action, "mechanism": SCRAM_MECHANISMS.get(one.mechanism, str(one.mechanism))}
            yield Change(f"User:{one.name}", codes.get(one.name, 0), details)


def _create_token(request: Any, response: Any) -> Iterator[Change]:
    if response is None or response.error_code:
        yield Change("DelegationToken:", 0 if response is None else response.error_code, {})
        return
    owner = f"{response.principal_type}:{response.principal_name}"
    details = {"owner": owner, "expires_at": response.expiry_timestamp_ms}
    yield Change(f"DelegationToken:{response.token_id}", 0, details)


def _change_token(request: Any, response: Any) -> Iterator[Change]:
    """The request names a token by its HMAC, which is its secret: the event names none."""
    code = 0 if response is None else response.error_code
    yield Change(
        "DelegationToken:", code, {} if response is None or code else {"expires_at": response.expiry_timestamp_ms}
    )


def _alter_quotas(request: Any, response: Any) -> Iterator[Change]:
    for index, entry in enumerate(request.entries):
        entity = ",".join(f"{one.entity_type}={one.entity_name or '<default>'}" for one in entry.entity)
        quotas = {one.key: None if one.remove else one.value for one in entry.ops}
        code = 0
        if response is not None and index < len(response.entries):
            code = response.entries[index].error_code
        yield Change(f"ClientQuota:{entity}", code, {"quotas": quotas})


def _reassign(request: Any, response: Any) -> Iterator[Change]:
    codes = {}
    if response is not None:
        codes = {
            (topic.name, one.partition_index): one.error_code
            for topic in response.responses
            for one in topic.partitions
        }
    for topic in request.topics:
        for one in topic.partitions:
            code = codes.get((topic.name, one.partition_index), 0 if response is None else response.error_code)
            details = {"partition": one.partition_index, "replicas": one.replicas}
            yield Change(f"Topic:{topic.name}", code, details)


def _elect(request: Any, response: Any) -> Iterator[Change]:
    kind = "unclean" if request.election_type == 1 else "preferred"
    if response is None or response.error_code:
        yield Change("Cluster:", 0 if response is None else response.error_code, {"election": kind})
        return
    for topic in response.replica_election_results:
        for one in topic.partition_result:
            details = {"partition": one.partition_id, "election": kind}
            yield Change(f"Topic:{topic.topic}", one.error_code, details)


def _move_logs(request: Any, response: Any) -> Iterator[Change]:
    codes = {}
    if response is not None:
        codes = {
            (topic.topic_name, one.partition_index): one.error_code
            for topic in response.results
            for one in topic.partitions
        }
    for folder in request.dirs:
        for topic in folder.topics:
            for index in topic.partitions:
                details = {"partition": index, "log_dir": folder.path}
                yield Change(f"Topic:{topic.name}", codes.get((topic.name, index), 0), details)


def _delete_groups(request: Any, response: Any) -> Iterator[Change]:
    codes = {} if response is None else {one.group_id: one.error_code for one in response.results}
    for name in request.groups_names:
        yield Change(f"Group:{name}", codes.get(name, 0), {})


def _delete_offsets(request: Any, response: Any) -> Iterator[Change]:
    code = 0 if response is None else response.error_code
    yield Change(f"Group:{request.group_id}", code, {"topics": [topic.name for topic in request.topics]})


def _share_offsets(request: Any, response: Any) -> Iterator[Change]:
    code = 0 if response is None else response.error_code
    codes = {} if response is None else {one.topic_name: _code_of(one) for one in response.responses}
    for topic in request.topics:
        yield Change(f"Group:{request.group_id}", code or codes.get(topic.topic_name, 0), {"topic": topic.topic_name})


def _code_of(topic: Any) -> int:
    """A topic's own code, or the first of its partitions."""
    rows = getattr(topic, "partitions", None)
    return int(topic.error_code if rows is None else next((one.error_code for one in rows if one.error_code), 0))


def _update_features(request: Any, response: Any) -> Iterator[Change]:
    codes = {} if response is None else {one.feature: one.error_code for one in response.results}
    for one in request.feature_updates:
        code = 0 if response is None else response.error_code or codes.get(one.feature, 0)
        yield Change(f"Feature:{one.feature}", code, {"level": one.max_version_level})


def _unregister(request: Any, response: Any) -> Iterator[Change]:
    yield Change(f"Broker:{request.broker_id}", 0 if response is None else response.error_code, {})


def _unregister_controller(request: Any, response: Any) -> Iterator[Change]:
    yield Change(f"Controller:{request.controller_id}", 0 if response is None else response.error_code, {})


def _voters(request: Any, response: Any) -> Iterator[Change]:
    yield Change(f"Voter:{request.voter_id}", 0 if response is None else response.error_code, {})


_CHANGES: Final[dict[int, Changes]] = {
    19: _create_topics,
    20: _delete_topics,
    21: _delete_records,
    30: _create_acls,
    31: _delete_acls,
    33: _alter_configs,
    34: _move_logs,
    37: _create_partitions,
    38: _create_token,
    39: _change_token,
    40: _change_token,
    42: _delete_groups,
    43: _elect,
    44: _alter_configs,
    45: _reassign,
    47: _delete_offsets,
    49: _alter_quotas,
    51: _alter_scram,
    57: _update_features,
    64: _unregister,
    80: _voters,
    81: _voters,
    91: _share_offsets,
    92: _share_offsets,
    94: _unregister_controller,
}
