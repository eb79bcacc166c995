"""Envelope v0: a client's request that a broker passes on to the active controller (KIP-590).

It is checked twice: the broker's principal has to be allowed CLUSTER_ACTION, and the client's principal, which the
envelope names, what the request inside needs. A principal with CLUSTER_ACTION may act as every other.
"""

from __future__ import annotations

import inspect
from typing import Any

from ottla.broker.caller import Caller, Client
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, Need
from ottla.broker.serving.api_table import ApiTable
from ottla.broker.serving.authorization import Authorization
from ottla.security.forwarded import host_of, principal_of
from ottla.wire import WireError, frames
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse


async def envelope(
    request: EnvelopeRequest, metadata: Metadata, authorization: Authorization, apis: ApiTable, caller: Caller
) -> EnvelopeResponse:
    if not caller.is_allowed_on_cluster(AclOperation.CLUSTER_ACTION):
        return EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not metadata.controllership.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    try:
        principal = principal_of(request.request_principal)
    except ValueError:
        return EnvelopeResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    frame = memoryview(request.request_data)
    try:
        host = host_of(request.client_host_address)
        header, position = frames.decode_request_header(frame)
        served = apis.served(header.api_key)
        if served is None or not (served.api.is_forwarded or served.api.is_checked_then_forwarded):
            return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
        if not served.min_version <= header.api_version <= served.max_version:
            return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        inner, _ = served.decoder(header.api_version)(frame, position)
    except (WireError, ValueError):
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    access = authorization.access(principal, host, caller.client.listener)
    client = Client(host, 0, caller.client.listener, "broker", access=access)
    sender = Caller(header.client_id, client, header.api_key, header.api_version, is_forwarded=True)
    try:
        answer: Any = served.direct_handler(inner, sender)
        if inspect.isawaitable(answer):
            answer = await answer
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        refused: Any = served.response_class()
        answer = refused
        if not hasattr(refused, "error_code"):
            return EnvelopeResponse(error_code=error.code)
        refused.error_code = error.code
        if hasattr(refused, "error_message"):
            refused.error_message = error.message
    parts = frames.encode_response(header.api_key, header.api_version, header.correlation_id, answer)
    return EnvelopeResponse(response_data=b"".join(map(bytes, parts))[4:])


api = Api(key=58, handler=envelope, needs=(Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER),))
