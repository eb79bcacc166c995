"""Envelope v0: a client's request that a broker passes on to the active controller (KIP-590)."""

from __future__ import annotations

import inspect
from typing import Any

from ottla.broker.caller import Caller, Client
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api
from ottla.broker.serving.api_table import ApiTable
from ottla.wire import WireError, frames
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse


async def envelope(request: EnvelopeRequest, metadata: Metadata, apis: ApiTable, caller: Caller) -> EnvelopeResponse:
    if not metadata.controllership.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    frame = memoryview(request.request_data)
    try:
        header, position = frames.decode_request_header(frame)
        served = apis.served(header.api_key)
        if served is None or not (served.api.is_forwarded or served.api.is_checked_then_forwarded):
            return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
        if not served.min_version <= header.api_version <= served.max_version:
            return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        inner, _ = served.decoder(header.api_version)(frame, position)
    except WireError:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    host = ".".join(map(str, request.client_host_address[:4])) or caller.client.host
    client = Client(host, 0, caller.client.listener, "broker")
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


api = Api(key=58, handler=envelope)
