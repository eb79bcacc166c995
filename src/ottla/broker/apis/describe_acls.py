"""DescribeAcls v1-v3. There is no authorizer: as Kafka without one, the answer is SECURITY_DISABLED."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.serving.api import Api, Caller
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node


def describe_acls(request: DescribeAclsRequest, node: Node, caller: Caller) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )


api = Api(key=29, handler=describe_acls)
