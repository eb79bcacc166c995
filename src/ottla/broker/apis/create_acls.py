"""CreateAcls v1-v3: entries for the access control lists. Answered by the active controller.

Without an authorizer SECURITY_DISABLED for each entry, as in Kafka: an ACL that no node checks would protect nothing.
"""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, Need
from ottla.broker.serving.authorization import Authorization
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


async def create_acls(
    request: CreateAclsRequest, metadata: Metadata, authorization: Authorization, caller: Caller
) -> CreateAclsResponse:
    if not caller.is_allowed_on_cluster(AclOperation.ALTER):
        return _refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "The request needs ALTER permission.")
    if authorization.authorizer is None:
        return _refused(request, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    return await metadata.commit(metadata.controller.create_acls(request))


def _refused(request: CreateAclsRequest, code: ErrorCode, message: str) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=code, error_message=message) for _ in request.creations]
    )


api = Api(key=30, handler=create_acls, needs=(Need(AclOperation.ALTER, AclResource.CLUSTER),), is_forwarded=True)
