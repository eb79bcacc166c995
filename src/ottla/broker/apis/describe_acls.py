"""DescribeAcls v1-v3: the entries of the access control lists that a filter finds, as this node knows them.

Without an authorizer the answer is SECURITY_DISABLED, as in Kafka.
"""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.serving.api import Api, Need
from ottla.broker.serving.authorization import Authorization
from ottla.security.acl_filter import AclFilter
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def describe_acls(request: DescribeAclsRequest, authorization: Authorization, caller: Caller) -> DescribeAclsResponse:
    if not caller.is_allowed_on_cluster(AclOperation.DESCRIBE):
        return DescribeAclsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="The request needs DESCRIBE permission."
        )
    if authorization.authorizer is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
        )
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in authorization.acls:
        if not wanted.matches(acl):
            continue
        pattern = (acl.resource_type, acl.resource_name, acl.pattern_type)
        resource = resources.get(pattern)
        if resource is None:
            resource = resources[pattern] = DescribeAclsResource(
                resource_type=acl.resource_type, resource_name=acl.resource_name, pattern_type=acl.pattern_type
            )
        resource.acls.append(
            AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type
            )
        )
    return DescribeAclsResponse(error_message=None, resources=list(resources.values()))


api = Api(key=29, handler=describe_acls, needs=(Need(AclOperation.DESCRIBE, AclResource.CLUSTER),))
