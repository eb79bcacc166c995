"""Produce requests with batches whose schemas are checked: before anything is appended, the registry may have to be
asked. Until it has answered, no other request of the connection is started, so that a producer's batches stay in
order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.verification import FIRST_PRODUCE_VERSION_WITH_TOPIC_IDS
from ottla.wire.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.caller import Caller
    from ottla.broker.replicas.partitions import Partition
    from ottla.broker.replicas.replicas import Replicas
    from ottla.broker.replicas.schema_validation import Batch
    from ottla.wire.messages.produce import ProduceRequest, ProduceResponse

Refusals = Mapping["Partition", KafkaError]
Append = Callable[[Refusals], "ProduceResponse | asyncio.Future[Any] | None"]
"""Appends what the request holds, but for batches that are refused."""
NO_REFUSALS: Refusals = MappingProxyType({})


def validated_batches(request: ProduceRequest, replicas: Replicas, caller: Caller) -> list[Batch]:
    """The batches of a request for topics that want their schemas checked."""
    found: list[Batch] = []
    for topic in request.topic_data:
        key: bytes | str
        if caller.api_version >= FIRST_PRODUCE_VERSION_WITH_TOPIC_IDS:
            key, of_topic = topic.topic_id, replicas.partitions.by_id.get(topic.topic_id)
        else:
            key, of_topic = topic.name, replicas.partitions.by_name.get(topic.name)
        for data in topic.partition_data:
            partition = of_topic.get(data.index) if of_topic is not None else None
            if partition is None:
                # A new topic's partitions are opened one after the other; the append would open this one, unchecked.
                with suppress(KafkaError):  # the append meets the error again, and answers with it
                    partition = replicas.hosting.find(key, data.index)
            if partition is not None and partition.log.validates_schemas and data.records is not None:
                found.append((partition, data.records))
    return found


def produce_validated(
    request: ProduceRequest, batches: list[Batch], replicas: Replicas, caller: Caller, append: Append
) -> ProduceResponse | asyncio.Future[Any] | None:
    """The answer to such a request."""
    refusals = replicas.schemas.check(batches)
    if refusals is not None:
        return append(refusals)
    ground = replicas.ground
    # The frame's buffer is reused before the answer is ready.
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = memoryview(bytearray(data.records))
    batches = validated_batches(request, replicas, caller)
    appended: asyncio.Future[None] = ground.loop.create_future()
    caller.done_in_order = appended
    return ground.spawn(_append_when_checked(request, batches, replicas, append, appended))


async def _append_when_checked(
    request: ProduceRequest, batches: list[Batch], replicas: Replicas, append: Append, appended: asyncio.Future[None]
) -> ProduceResponse | None:
    try:
        answer = append(await replicas.schemas.check_asking(batches, request.timeout_ms))
    finally:
        appended.set_result(None)
    if isinstance(answer, asyncio.Future):
        response: ProduceResponse | None = await answer
        return response
    return answer
