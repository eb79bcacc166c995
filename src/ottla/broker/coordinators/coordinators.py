"""The room of coordinators: groups, transactions and states of share partitions. Each is hosted by the leader of its
partition of an internal topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.groups import GroupCoordinator
from ottla.broker.coordinators.persister import Persister
from ottla.broker.coordinators.producer_ids import ProducerIds
from ottla.broker.coordinators.share_offsets import ShareOffsets
from ottla.broker.coordinators.shares import ShareCoordinator
from ottla.broker.coordinators.transactions import TransactionCoordinator
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

if TYPE_CHECKING:
    from ottla.broker.coordinators.runtime import Coordinator
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.ports import ControllerPort
    from ottla.broker.peers.peers import Peers
    from ottla.broker.replicas.replicas import Replicas
    from ottla.cluster import ImageChanges

GROUP_COORDINATOR = 0
TRANSACTION_COORDINATOR = 1
SHARE_COORDINATOR = 2
CREATE_TIMEOUT_MS = 30_000


class Coordinators:
    def __init__(self, ground: Ground, replicas: Replicas, peers: Peers, controller: ControllerPort) -> None:
        self._controller = controller
        self.producer_ids = ProducerIds(ground, controller)
        self.groups = GroupCoordinator(ground, replicas, controller)
        self.shares = ShareCoordinator(ground, replicas, controller)
        self.persister = self.groups.persister = Persister(ground, self.shares, peers)
        self.share_offsets = ShareOffsets(ground, replicas, peers, self.groups, self.persister)
        self.transactions = TransactionCoordinator(ground, replicas, controller, peers, self.groups, self.producer_ids)
        self.by_type: dict[int, Coordinator[Any]] = {
            GROUP_COORDINATOR: self.groups,
            TRANSACTION_COORDINATOR: self.transactions,
            SHARE_COORDINATOR: self.shares,
        }
        """By FindCoordinator's type of key."""

    def start(self) -> None:
        for coordinator in self.by_type.values():
            coordinator.start()

    def stop(self) -> None:
        for coordinator in self.by_type.values():
            coordinator.stop()

    def image_changed(self, changes: ImageChanges) -> None:
        for coordinator in self.by_type.values():
            coordinator.metadata_changed(changes)

    def log_dir_failed(self) -> None:
        for coordinator in self.by_type.values():
            coordinator.log_dir_failed()

    async def auto_create_topics(self, names: list[str]) -> dict[str, ErrorCode]:
        """Create topics that a client named before they existed, internal ones with their own settings. The result
        has the topics that could not be created, with their errors."""
        internal = {coordinator.topic: coordinator for coordinator in self.by_type.values()}
        request = CreateTopicsRequest(
            topics=[
                internal[name].creatable_topic()
                if name in internal
                else CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
                for name in names
            ],
            timeout_ms=CREATE_TIMEOUT_MS,
        )
        response = await self._controller.ask(request)
        return {
            topic.name: ErrorCode(topic.error_code)
            for topic in response.topics
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        }
