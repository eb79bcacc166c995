"""DescribeUserScramCredentials v0: which users have SCRAM credentials. kafka-configs asks it beside a user's quotas."""

from __future__ import annotations

from collections import Counter

from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api, Need
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, ground: Ground, caller: Caller
) -> DescribeUserScramCredentialsResponse:
    if not caller.is_allowed_on_cluster(AclOperation.DESCRIBE):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        # As Kafka's refusal: one result per user, none of them named.
        refused = DescribeUserScramCredentialsResult(error_code=code, error_message=code.text)
        return DescribeUserScramCredentialsResponse(
            error_code=code, error_message=code.text, results=[refused] * len(request.users or ())
        )
    infos: dict[str, list[CredentialInfo]] = {}
    for (user, mechanism), record in sorted(ground.image.scram.items()):
        infos.setdefault(user, []).append(CredentialInfo(mechanism=mechanism, iterations=record.iterations))
    named = [user.name for user in request.users] if request.users else list(infos)
    results = []
    for name, count in Counter(named).items():
        result = DescribeUserScramCredentialsResult(user=name, error_message=None)
        if count > 1:
            result.error_code = ErrorCode.DUPLICATE_RESOURCE
            result.error_message = (
                f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            )
        elif name not in infos:
            result.error_code = ErrorCode.RESOURCE_NOT_FOUND
            result.error_message = f"Attempt to describe a user credential that does not exist: {name}"
        else:
            result.credential_infos = infos[name]
        results.append(result)
    return DescribeUserScramCredentialsResponse(error_message=None, results=results)


api = Api(key=50, handler=describe_user_scram_credentials, needs=(Need(AclOperation.DESCRIBE, AclResource.CLUSTER),))
