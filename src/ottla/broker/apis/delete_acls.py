"""DeleteAcls v1-v3: remove the access control entries that filters find. Answered by the active controller.

Without an authorizer SECURITY_DISABLED for each filter, as in Kafka.
"""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, Need
from ottla.broker.serving.authorization import Authorization
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


async def delete_acls(
    request: DeleteAclsRequest, metadata: Metadata, authorization: Authorization, caller: Caller
) -> DeleteAclsResponse:
    if not caller.is_allowed_on_cluster(AclOperation.ALTER):
        return _refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "The request needs ALTER permission.")
    if authorization.authorizer is None:
        return _refused(request, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    controller = metadata.controller
    try:
        decision = controller.delete_acls(request)
    except KafkaError as error:
        return _refused(request, error.code, error.message)
    return await metadata.commit(decision)


def _refused(request: DeleteAclsRequest, code: ErrorCode, message: str | None) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error_code=code, error_message=message) for _ in request.filters]
    )


api = Api(key=31, handler=delete_acls, needs=(Need(AclOperation.ALTER, AclResource.CLUSTER),), is_forwarded=True)
