"""AlterUserScramCredentials v0: set and remove SCRAM credentials. Answered by the active controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.serving.api import Api, Caller
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.node import Node


async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, node: Node, caller: Caller
) -> AlterUserScramCredentialsResponse:
    return await node.commit(node.controller.alter_user_scram_credentials(request))


api = Api(key=51, handler=alter_user_scram_credentials)
