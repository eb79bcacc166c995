"""DeleteAcls v1-v3. There is no authorizer: as Kafka without one, SECURITY_DISABLED for each filter."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.serving.api import Api
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def delete_acls(request: DeleteAclsRequest, caller: Caller) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.")
            for _ in request.filters
        ]
    )


api = Api(key=31, handler=delete_acls, is_forwarded=True)
