"""BrokerHeartbeat v0-v2: a broker is alive, has replayed the metadata up to here, and wants to serve, rest or stop.
Answered by the active controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.api import Api, Caller
from ottla.cluster import BrokerImage, ClusterImage
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from ottla.broker.node import Node


async def broker_heartbeat(request: BrokerHeartbeatRequest, node: Node, caller: Caller) -> BrokerHeartbeatResponse:
    controller = node.controller
    broker = _registered(controller.image, request)
    node.controllership.heard_from(broker.id)
    caller.peer.broker_id = broker.id
    is_caught_up = request.current_metadata_offset >= broker.epoch
    if request.want_shut_down:
        await node.commit(controller.shut_down(broker.id))
        return _answer(controller.image.brokers[broker.id], is_caught_up, _may_stop(controller.image, broker.id))
    if request.want_fence:
        if not broker.is_fenced:
            await node.commit(controller.fence(broker.id))
    elif broker.is_fenced and is_caught_up:
        await node.commit(controller.unfence(broker.id, cordoned_log_dirs=tuple(request.cordoned_log_dirs or ())))
    return _answer(controller.image.brokers[broker.id], is_caught_up, should_shut_down=False)


def _registered(image: ClusterImage, request: BrokerHeartbeatRequest) -> BrokerImage:
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED)
    if broker.epoch != request.broker_epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    return broker


def _may_stop(image: ClusterImage, broker_id: int) -> bool:
    """Whether nobody is left who could take over anything that the broker leads."""
    return not any(
        partition.leader == broker_id and any(other != broker_id for other in partition.isr)
        for topic in image.topics_by_id.values()
        for partition in topic.partitions.values()
    )


def _answer(broker: BrokerImage, is_caught_up: bool, should_shut_down: bool) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(
        is_caught_up=is_caught_up, is_fenced=broker.is_fenced, should_shut_down=should_shut_down
    )


api = Api(key=63, handler=broker_heartbeat)
