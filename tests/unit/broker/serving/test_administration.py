"""Which audit events administrative requests leave."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from ottla.broker.audit import Audit, AuditEvent
from ottla.broker.caller import Caller
from ottla.broker.serving.administration import MAX_CHANGES, audited
from ottla.wire import Message
from ottla.wire.acls import AclOperation, AclResource, Permission
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    OpData,
)
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from tests.unit.broker.rooms import CLIENT


def recorded(request: Message, answer: Any) -> list[AuditEvent]:
    """What is recorded of a request that is answered so: by a response, an awaitable or an error."""
    key = type(request).__schema__.api_key
    assert key is not None
    audit = Audit()
    events: list[AuditEvent] = []
    audit.sink = events.append

    def handler(request: Any, caller: Caller) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def run() -> None:
        made = audited(key, handler, audit)(request, Caller("c", CLIENT, key, 0))
        if asyncio.iscoroutine(made):
            await made

    with suppress(KafkaError, asyncio.CancelledError):
        asyncio.run(run())
    return events


def told(events: list[AuditEvent]) -> list[tuple[str, str, bool | None, str]]:
    return [(one.operation, one.resource, one.is_success, one.reason) for one in events]


def topics(*names: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=3) for name in names])


def test_each_topic_of_a_request_is_an_event_with_its_own_result() -> None:
    response = CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name="a"),
            CreatableTopicResult(name="b", error_code=ErrorCode.TOPIC_ALREADY_EXISTS),
        ]
    )
    events = recorded(topics("a", "b"), response)
    assert told(events) == [
        ("CreateTopics", "Topic:a", True, ""),
        ("CreateTopics", "Topic:b", False, "TOPIC_ALREADY_EXISTS"),
    ]
    assert (events[0].kind, events[0].principal, events[0].host) == ("changed", "User:ANONYMOUS", "10.0.0.9")
    assert events[0].details["partitions"] == 3


def test_an_answer_that_comes_later_is_recorded_when_it_comes() -> None:
    async def later() -> CreateTopicsResponse:
        await asyncio.sleep(0)
        return CreateTopicsResponse(topics=[CreatableTopicResult(name="a")])

    assert told(recorded(topics("a"), later())) == [("CreateTopics", "Topic:a", True, "")]


def test_a_request_that_fails_as_a_whole_is_recorded_with_its_code() -> None:
    async def fails() -> None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    expected = [("CreateTopics", "Topic:a", False, "NOT_CONTROLLER")]
    assert told(recorded(topics("a"), KafkaError(ErrorCode.NOT_CONTROLLER))) == expected
    assert told(recorded(topics("a"), fails())) == expected


def test_a_client_that_leaves_before_the_answer_is_recorded() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    (event,) = recorded(topics("a"), cancelled())
    assert (event.is_success, event.reason) == (None, "the client left before the answer")


def test_a_validation_changes_nothing_and_leaves_no_event() -> None:
    request = topics("a")
    request.validate_only = True
    assert recorded(request, CreateTopicsResponse(topics=[CreatableTopicResult(name="a")])) == []


def test_a_node_without_audit_records_nothing() -> None:
    def handler(request: Any, caller: Caller) -> str:
        return "answer"

    assert audited(19, handler, Audit())(topics("a"), Caller("c", CLIENT, 19, 0)) == "answer"
    assert audited(0, handler, Audit()) is handler


def test_of_settings_only_names_are_recorded() -> None:
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=4, resource_name="1", configs=[AlterableConfig(name="ssl.key.password", value="hush")]
            )
        ]
    )
    row = AlterConfigsResourceResponse(
        resource_type=4, resource_name="1", error_code=ErrorCode.INVALID_CONFIG, error_message="hush is no password"
    )
    (event,) = recorded(request, IncrementalAlterConfigsResponse(responses=[row]))
    assert (event.resource, event.details) == ("Broker:1", {"settings": ["ssl.key.password"]})
    assert "hush" not in repr(event)


def test_no_secret_of_a_password_or_a_token_is_recorded() -> None:
    upsertion = ScramCredentialUpsertion(name="alice", mechanism=2, salt=b"hush", salted_password=b"hush")
    response = AlterUserScramCredentialsResponse(results=[AlterUserScramCredentialsResult(user="alice")])
    (event,) = recorded(AlterUserScramCredentialsRequest(upsertions=[upsertion]), response)
    assert (event.resource, event.details) == ("User:alice", {"password": "set", "mechanism": "SCRAM-SHA-512"})
    made = CreateDelegationTokenResponse(principal_type="User", principal_name="bob", token_id="t1", hmac=b"hush")
    (token,) = recorded(CreateDelegationTokenRequest(), made)
    assert (token.resource, token.details["owner"]) == ("DelegationToken:t1", "User:bob")
    (renewed,) = recorded(RenewDelegationTokenRequest(hmac=b"hush"), RenewDelegationTokenResponse())
    assert "hush" not in repr([event, token, renewed])


def test_acls_are_recorded_with_the_principal_that_they_are_about() -> None:
    creation = AclCreation(
        resource_type=AclResource.TOPIC, resource_name="orders", principal="User:bob", host="*",
        operation=AclOperation.READ, permission_type=Permission.ALLOW,
    )  # fmt: skip
    (event,) = recorded(CreateAclsRequest(creations=[creation]), CreateAclsResponse(results=[AclCreationResult()]))
    assert (event.resource, event.details["acl_principal"], event.details["acl_operation"]) == (
        "Topic:orders", "User:bob", "READ",
    )  # fmt: skip
    gone = DeleteAclsMatchingAcl(resource_type=AclResource.GROUP, resource_name="g", principal="User:bob", host="*")
    response = DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(matching_acls=[gone])])
    (deleted,) = recorded(DeleteAclsRequest(), response)
    assert (deleted.operation, deleted.resource) == ("DeleteAcls", "Group:g")


def test_quotas_are_recorded_with_their_entity() -> None:
    entry = AlterClientQuotasRequestEntryData(
        entity=[AlterClientQuotasRequestEntityData(entity_type="user", entity_name=None)],
        ops=[OpData(key="producer_byte_rate", value=1.0)],
    )
    response = AlterClientQuotasResponse(entries=[AlterClientQuotasResponseEntryData()])
    (event,) = recorded(AlterClientQuotasRequest(entries=[entry]), response)
    assert (event.resource, event.details) == ("ClientQuota:user=<default>", {"quotas": {"producer_byte_rate": 1.0}})


def test_offsets_of_share_groups_are_recorded_topic_by_topic() -> None:
    asked = [AlterShareGroupOffsetsRequestTopic(topic_name=name) for name in ("a", "b")]
    denied = AlterShareGroupOffsetsResponsePartition(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    rows = [
        AlterShareGroupOffsetsResponseTopic(topic_name="b", partitions=[denied]),
        AlterShareGroupOffsetsResponseTopic(topic_name="a", partitions=[AlterShareGroupOffsetsResponsePartition()]),
    ]
    request = AlterShareGroupOffsetsRequest(group_id="g", topics=asked)
    moved, refused = recorded(request, AlterShareGroupOffsetsResponse(responses=rows))
    assert (moved.resource, moved.details, moved.is_success) == ("Group:g", {"topic": "a"}, True)
    assert (refused.details, refused.reason) == ({"topic": "b"}, "TOPIC_AUTHORIZATION_FAILED")
    all_denied = AlterShareGroupOffsetsResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert [one.reason for one in recorded(request, all_denied)] == ["GROUP_AUTHORIZATION_FAILED"] * 2
    gone = DeleteShareGroupOffsetsResponse(responses=[DeleteShareGroupOffsetsResponseTopic(topic_name="a")])
    deletion = DeleteShareGroupOffsetsRequest(
        group_id="g", topics=[DeleteShareGroupOffsetsRequestTopic(topic_name="a")]
    )
    (deleted,) = recorded(deletion, gone)
    assert (deleted.operation, deleted.resource, deleted.is_success) == ("DeleteShareGroupOffsets", "Group:g", True)


def test_a_request_of_very_many_changes_is_recorded_up_to_a_limit() -> None:
    names = [str(number) for number in range(MAX_CHANGES + 7)]
    response = CreateTopicsResponse(topics=[CreatableTopicResult(name=name) for name in names])
    events = recorded(topics(*names), response)
    assert len(events) == MAX_CHANGES + 1
    assert events[-1].details == {"not_recorded_singly": 7}


@pytest.mark.parametrize("key", [0, 1, 3, 18, 36])
def test_apis_that_change_nothing_keep_their_handler(key: int) -> None:
    def handler(request: Any, caller: Caller) -> None:
        return None

    assert audited(key, handler, Audit()) is handler
