"""The ISR changes that this node's leaders propose to the controller. One request at a time carries all that wait."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.cluster.topic import RECOVERED
from ottla.replication.leader import Leader, Outcome
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.metadata.ports import ControllerPort
    from ottla.broker.replicas.partitions import Partition

log = logging.getLogger("ottla.replicas")

RETRY_MS = 50
Proposal = tuple[Leader, tuple[int, ...]]


class IsrChanges:
    def __init__(self, ground: Ground, controller: ControllerPort) -> None:
        self._ground = ground
        self._controller = controller
        self._waiting: dict[Partition, Proposal] = {}
        self._asking: asyncio.Task[None] | None = None

    def propose(self, partition: Partition, leader: Leader, isr: tuple[int, ...]) -> None:
        self._waiting[partition] = (leader, isr)
        if self._asking is None or self._asking.done():
            self._asking = self._ground.spawn(self._ask_all())

    async def _ask_all(self) -> None:
        while self._waiting and not self._ground.is_stopping:
            await asyncio.sleep(0)  # proposals of this turn are sent together
            asked, self._waiting = self._waiting, {}
            current = {partition: one for partition, one in asked.items() if _is_current(partition, one)}
            if current and not await self._ask(current):
                await asyncio.sleep(RETRY_MS / 1000)

    async def _ask(self, asked: dict[Partition, Proposal]) -> bool:
        """Whether everything got a final answer; the rest waits for the next request."""
        try:
            response: AlterPartitionResponse = await self._controller.ask(self._request(asked))
            code = ErrorCode(response.error_code)
        except KafkaError as error:
            response, code = AlterPartitionResponse(), error.code
        if code != ErrorCode.NONE:
            log.warning("the controller does not take ISR changes: %s", code.name)
        rows = {(topic.topic_id, row.partition_index): row for topic in response.topics for row in topic.partitions}
        for partition, (leader, isr) in asked.items():
            row = rows.get((partition.topic_id, partition.index))
            self._answered(partition, leader, isr, row if code == ErrorCode.NONE else None)
        return not self._waiting

    def _answered(
        self,
        partition: Partition,
        leader: Leader,
        isr: tuple[int, ...],
        row: AlterPartitionResponsePartitionData | None,
    ) -> None:
        now = self._ground.now()
        if row is None:
            outcome = Outcome.RETRIED
        else:
            outcome = leader.answered(
                isr,
                ErrorCode(row.error_code),
                isr=tuple(row.isr),
                leader_epoch=row.leader_epoch,
                partition_epoch=row.partition_epoch,
                now=now,
            )
        if not _is_current(partition, (leader, isr)):
            if partition.leader is leader:
                log.debug("%s-%d: in sync are %s", partition.topic, partition.index, list(leader.isr))
                partition.advance(now)
        elif outcome is Outcome.RETRIED:
            self._waiting.setdefault(partition, (leader, isr))

    def _request(self, asked: dict[Partition, Proposal]) -> AlterPartitionRequest:
        topics: dict[bytes, list[AlterPartitionRequestPartitionData]] = {}
        for partition, (leader, isr) in asked.items():
            topics.setdefault(partition.topic_id, []).append(
                AlterPartitionRequestPartitionData(
                    partition_index=partition.index,
                    leader_epoch=leader.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=replica_id, broker_epoch=leader.epoch_of(replica_id))
                        for replica_id in isr
                    ],
                    leader_recovery_state=RECOVERED,  # an unclean leader has recovered by now what it could
                    partition_epoch=leader.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._ground.node_id,
            broker_epoch=self._controller.broker_epoch,
            topics=[
                AlterPartitionRequestTopicData(topic_id=topic_id, partitions=rows) for topic_id, rows in topics.items()
            ],
        )


def _is_current(partition: Partition, proposal: Proposal) -> bool:
    """Whether a proposal is still the leader's present one."""
    leader, isr = proposal
    return partition.leader is leader and leader.proposed == isr
