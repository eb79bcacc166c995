"""DescribeAcls v1-v3. There is no authorizer: as Kafka without one, the answer is SECURITY_DISABLED."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.serving.api import Api
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def describe_acls(request: DescribeAclsRequest, caller: Caller) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )


api = Api(key=29, handler=describe_acls, is_forwarded=True)
