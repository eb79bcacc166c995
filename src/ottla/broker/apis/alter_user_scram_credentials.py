"""AlterUserScramCredentials v0: set and remove SCRAM credentials. Answered by the active controller."""

from __future__ import annotations

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.broker.serving.api import Api
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)


async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, metadata: Metadata, caller: Caller
) -> AlterUserScramCredentialsResponse:
    return await metadata.commit(metadata.controller.alter_user_scram_credentials(request))


api = Api(key=51, handler=alter_user_scram_credentials, is_forwarded=True)
