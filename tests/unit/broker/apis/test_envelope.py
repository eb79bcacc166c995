"""Forwarded requests: the broker's principal and the client's are checked, and the client's address counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.broker.caller import Caller, Client
from ottla.broker.serving.api_table import ApiTable
from ottla.broker.serving.authorization import Authorization
from ottla.config.implemented import STANDARD_AUTHORIZER
from ottla.security.forwarded import address_bytes, principal_bytes
from ottla.security.principal import Principal
from ottla.wire import decoder, frames
from ottla.wire.acls import AclOperation, AclResource, PatternType, Permission
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tests.unit.broker.rooms import Ground, lead, make_metadata, run_timed

BROKER, ALICE = Principal("User", "broker"), Principal("User", "alice")


def creation(principal: str, host: str) -> AclCreation:
    return AclCreation(
        resource_type=AclResource.CLUSTER,
        resource_name="kafka-cluster",
        resource_pattern_type=PatternType.LITERAL,
        principal=principal,
        host=host,
        operation=AclOperation.ALTER,
        permission_type=Permission.ALLOW,
    )


def wrapped(request: Any, principal: Principal, host: str, **changes: Any) -> EnvelopeRequest:
    key = type(request).__schema__.api_key
    data = b"".join(map(bytes, frames.encode_request(key, 3, 7, "app", request)))[4:]
    fields = {
        "request_data": data,
        "request_principal": principal_bytes(principal),
        "client_host_address": address_bytes(host),
    }
    return EnvelopeRequest(**(fields | changes))


class Secured:
    """The active controller of a cluster whose brokers are super users."""

    def __init__(self, folder: Path) -> None:
        self.ground = Ground(folder, authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:broker")
        self.metadata = make_metadata(self.ground)
        self.authorization = Authorization(self.ground)
        self.table = ApiTable(self.ground)
        self.table.bind((self.ground, self.metadata, self.authorization, self.table), self.metadata.controllership)
        self.metadata.feed.on_change = self.authorization.image_changed  # type: ignore[assignment]

    async def send(self, request: EnvelopeRequest, sender: Principal = BROKER) -> EnvelopeResponse:
        access = self.authorization.access(sender, "10.0.0.1")
        caller = Caller("1", Client("10.0.0.1", 0, "CONTROLLER", "controller", access=access), 58, 0)
        served = self.table.served(58)
        assert served is not None
        answer: EnvelopeResponse = await served.direct_handler(request, caller)
        return answer

    async def create(self, principal: Principal, host: str) -> ErrorCode:
        """What a client gets that creates an ACL through a broker."""
        request = CreateAclsRequest(creations=[creation("User:alice", "2001:db8::/32")])
        answer = await self.send(wrapped(request, principal, host))
        assert not answer.error_code and answer.response_data is not None
        frame = memoryview(bytes(answer.response_data))
        _, position = frames.decode_response_header(frame, 30, 3)
        response: CreateAclsResponse = decoder(CreateAclsResponse, 3)(frame, position)[0]
        return ErrorCode(response.results[0].error_code)


def test_the_client_inside_needs_the_permission_and_its_own_address_counts(tmp_path: Path) -> None:
    async def scenario() -> None:
        secured = Secured(tmp_path)
        await lead(secured.metadata)
        secured.authorization.use_image()
        assert await secured.create(ALICE, "2001:db8::7") is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert not secured.ground.image.acls
        assert await secured.create(BROKER, "10.0.0.1") is ErrorCode.NONE
        assert await secured.create(ALICE, "2001:db8::7") is ErrorCode.NONE
        assert await secured.create(ALICE, "10.0.0.1") is ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    run_timed(scenario())


@pytest.mark.parametrize(
    ("sender", "changes", "code"),
    [
        (ALICE, {}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (BROKER, {"request_principal": None}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (BROKER, {"request_principal": b"\0\1"}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (BROKER, {"client_host_address": b"\1\2\3"}, ErrorCode.INVALID_REQUEST),
        (BROKER, {"client_host_address": b""}, ErrorCode.INVALID_REQUEST),
        (BROKER, {"request_data": b"\0"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_envelope_of_another_principal_or_that_cannot_be_read_is_refused(
    tmp_path: Path, sender: Principal, changes: dict[str, Any], code: ErrorCode
) -> None:
    async def scenario() -> None:
        secured = Secured(tmp_path)
        await lead(secured.metadata)
        secured.authorization.use_image()
        request = wrapped(CreateAclsRequest(), BROKER, "10.0.0.1", **changes)
        assert (await secured.send(request, sender)).error_code == code

    run_timed(scenario())


def test_what_brokers_answer_themselves_is_not_forwarded(tmp_path: Path) -> None:
    async def scenario() -> None:
        secured = Secured(tmp_path)
        await lead(secured.metadata)
        answer = await secured.send(wrapped(DescribeAclsRequest(), BROKER, "10.0.0.1"))
        assert answer.error_code == ErrorCode.INVALID_REQUEST

    run_timed(scenario())
