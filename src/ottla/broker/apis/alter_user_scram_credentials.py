"""AlterUserScramCredentials v0: set and remove SCRAM credentials. Answered by the active controller."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api, Need
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, metadata: Metadata, caller: Caller
) -> AlterUserScramCredentialsResponse:
    if not caller.is_allowed_on_cluster(AclOperation.ALTER):
        return _refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await metadata.commit(metadata.controller.alter_user_scram_credentials(request))


def _refused(request: AlterUserScramCredentialsRequest, code: ErrorCode) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=code, error_message=code.text)
            for user in dict.fromkeys(
                [*(one.name for one in request.deletions), *(one.name for one in request.upsertions)]
            )
        ]
    )


api = Api(
    key=51,
    handler=alter_user_scram_credentials,
    needs=(Need(AclOperation.ALTER, AclResource.CLUSTER),),
    is_forwarded=True,
)
