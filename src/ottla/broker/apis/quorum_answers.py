"""The quorum's answers in the version of the request: endpoints of the leader came with KIP-853."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from ottla.broker.caller import Caller
from ottla.broker.metadata.metadata import Metadata
from ottla.wire import Message


def quorum_answer(
    metadata: Metadata, request: Message, caller: Caller, *, first_version_with_endpoints: int = 1
) -> Awaitable[Any]:
    answer = metadata.quorum.receive(request)
    return answer if caller.api_version >= first_version_with_endpoints else _without_endpoints(answer)


async def _without_endpoints(answer: asyncio.Future[Any]) -> Any:
    response = await answer
    response.node_endpoints = []
    return response
