"""CreateAcls v1-v3. There is no authorizer: as Kafka without one, SECURITY_DISABLED for each ACL."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.serving.api import Api
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def create_acls(request: CreateAclsRequest, caller: Caller) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.")
            for _ in request.creations
        ]
    )


api = Api(key=30, handler=create_acls, is_forwarded=True)
