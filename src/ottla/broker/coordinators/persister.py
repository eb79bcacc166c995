"""The persister: how a broker reads and writes the states of share partitions, wherever their coordinator is (KIP-932).

The leader of a partition reads a share partition's state when it begins to serve it and writes every change before it
takes effect; the group coordinator initializes, deletes and asks for summaries:

    key = SharePartitionKey(group_id, topic_id, partition)           # topic_id: 16 bytes
    state = await persister.read(key, leader_epoch)                  # ShareState: state_epoch, start_offset, batches
    await persister.write(key, ShareWrite(state_epoch, leader_epoch, start_offset, delivery_complete_count, batches))
    await persister.initialize(key, state_epoch, start_offset)       # start_offset -1: not known yet
    await persister.delete(key)
    state = await persister.summary(key)                             # None: not initialized

`batches` are `StoredBatch`es. All of them raise KafkaError: FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH,
UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST (the share partition was not initialized) are final; a coordinator that
moves, loads or does not answer is tried again for `RETRY_FOR_MS`, then its error is raised. `write_now` is the call
without a task for a coordinator on this node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.shares import Outcome, ShareCoordinator
from ottla.groups.share.state_batches import StoredBatch
from ottla.groups.share.state_records import SharePartitionKey
from ottla.groups.share.state_shard import UNKNOWN_COUNT, ShareOutcome, ShareState, ShareWrite
from ottla.net import NoAnswer
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.peers.peers import Peers

RETRY_FOR_MS = 15_000
FIRST_BACKOFF_MS = 50
MAX_BACKOFF_MS = 1000
AT_A_TIME = 50
"""How many share partitions are initialized or deleted at once for one request."""
PURPOSE = "share"
"""Connections of their own: a Fetch of a follower that waits does not hold up a write."""
RETRIABLE = frozenset(
    (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    )
)
Local = Callable[[], Outcome]


class Persister:
    def __init__(self, ground: Ground, shares: ShareCoordinator, peers: Peers) -> None:
        self._ground = ground
        self._shares = shares
        self._peers = peers

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        row = initialize_share_group_state.PartitionData(
            partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        topic = initialize_share_group_state.InitializeStateData(topic_id=key.topic_id, partitions=[row])
        request = initialize_share_group_state.InitializeShareGroupStateRequest(group_id=key.group_id, topics=[topic])
        await self._run(key, lambda: self._shares.initialize(key, state_epoch, start_offset), request)

    async def initialize_all(
        self, keys: Iterable[SharePartitionKey], state_epoch: int, start_offset: int
    ) -> dict[SharePartitionKey, KafkaError | None]:
        """Initialize share partitions, several at a time; returns the errors."""
        return await self._each(keys, lambda key: self.initialize(key, state_epoch, start_offset))

    async def delete_all(self, keys: Iterable[SharePartitionKey]) -> dict[SharePartitionKey, KafkaError | None]:
        return await self._each(keys, self.delete)

    async def _each(
        self, keys: Iterable[SharePartitionKey], work: Callable[[SharePartitionKey], Coroutine[Any, Any, None]]
    ) -> dict[SharePartitionKey, KafkaError | None]:
        results: dict[SharePartitionKey, KafkaError | None] = {}
        waiting = list(keys)

        async def one(key: SharePartitionKey) -> None:
            try:
                await work(key)
            except KafkaError as error:
                results[key] = error
            else:
                results[key] = None

        for start in range(0, len(waiting), AT_A_TIME):
            await asyncio.gather(*map(one, waiting[start : start + AT_A_TIME]))
        return results

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState:
        row = read_share_group_state.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        topic = read_share_group_state.ReadStateData(topic_id=key.topic_id, partitions=[row])
        request = read_share_group_state.ReadShareGroupStateRequest(group_id=key.group_id, topics=[topic])
        state = await self._run(key, lambda: self._shares.read(key, leader_epoch), request)
        assert state is not None
        return state

    def write_now(self, key: SharePartitionKey, write: ShareWrite) -> Outcome | None:
        """The outcome of a write, or a future for it, if the coordinator is on this node; None if it is not. The caller
        goes on with `write` if the outcome's code is in RETRIABLE."""
        image = self._ground.image.partition(self._shares.topic, self._shares.partition_for(key.text))
        if image is None or image.leader != self._ground.node_id:
            return None
        return self._shares.write(key, write)

    async def write(self, key: SharePartitionKey, write: ShareWrite) -> None:
        row = write_share_group_state.PartitionData(
            partition=key.partition,
            state_epoch=write.state_epoch,
            leader_epoch=write.leader_epoch,
            start_offset=write.start_offset,
            delivery_complete_count=write.delivery_complete_count,
            state_batches=[write_share_group_state.StateBatch(**batch._asdict()) for batch in write.batches],
        )
        topic = write_share_group_state.WriteStateData(topic_id=key.topic_id, partitions=[row])
        request = write_share_group_state.WriteShareGroupStateRequest(group_id=key.group_id, topics=[topic])
        await self._run(key, lambda: self._shares.write(key, write), request)

    async def delete(self, key: SharePartitionKey) -> None:
        row = delete_share_group_state.PartitionData(partition=key.partition)
        topic = delete_share_group_state.DeleteStateData(topic_id=key.topic_id, partitions=[row])
        request = delete_share_group_state.DeleteShareGroupStateRequest(group_id=key.group_id, topics=[topic])
        await self._run(key, lambda: self._shares.delete(key), request)

    async def summary(self, key: SharePartitionKey) -> ShareState | None:
        """The state without its batches."""
        row = read_share_group_state_summary.PartitionData(partition=key.partition, leader_epoch=-1)
        topic = read_share_group_state_summary.ReadStateSummaryData(topic_id=key.topic_id, partitions=[row])
        request = read_share_group_state_summary.ReadShareGroupStateSummaryRequest(
            group_id=key.group_id, topics=[topic]
        )
        return await self._run(key, lambda: self._shares.summary(key), request)

    async def _run(self, key: SharePartitionKey, local: Local, request: Message) -> ShareState | None:
        ground = self._ground
        give_up_at = ground.now() + RETRY_FOR_MS
        backoff_ms = FIRST_BACKOFF_MS
        while True:
            outcome = await self._once(key, local, request)
            if outcome.code == ErrorCode.NONE:
                return outcome.state
            if outcome.code not in RETRIABLE or ground.now() + backoff_ms >= give_up_at or ground.is_stopping:
                raise KafkaError(outcome.code, outcome.message or outcome.code.text)
            await asyncio.sleep(backoff_ms / 1000)
            backoff_ms = min(2 * backoff_ms, MAX_BACKOFF_MS)

    async def _once(self, key: SharePartitionKey, local: Local, request: Message) -> ShareOutcome:
        ground, shares = self._ground, self._shares
        if shares.topic not in ground.image.topics_by_name:
            try:
                await shares.create_topic()
            except KafkaError as error:
                return ShareOutcome(error.code, error.message)
        image = ground.image.partition(shares.topic, shares.partition_for(key.text))
        if image is None:
            return ShareOutcome(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if image.leader == ground.node_id:
            outcome = local()
            return outcome if isinstance(outcome, ShareOutcome) else await outcome
        address = ground.broker_address(image.leader)
        if address is None:
            return ShareOutcome(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        answered: asyncio.Future[Message | NoAnswer] = ground.loop.create_future()

        def take(answer: Message | NoAnswer) -> None:
            if not answered.done():
                answered.set_result(answer)

        timeout_ms = ground.config.share_coordinator_write_timeout_ms
        self._peers.send(*address, request, take, timeout_ms, purpose=PURPOSE)
        return _outcome(await answered)


def _outcome(answer: Any) -> ShareOutcome:
    """Another broker's answer for the one share partition of the request."""
    rows = [] if isinstance(answer, NoAnswer) else [row for topic in answer.results for row in topic.partitions]
    if not rows:
        return ShareOutcome(ErrorCode.NETWORK_EXCEPTION)
    row = rows[0]
    code = ErrorCode(row.error_code)
    if code != ErrorCode.NONE or not hasattr(row, "state_epoch"):
        return ShareOutcome(code, row.error_message)
    if not hasattr(row, "state_batches") and row.state_epoch == 0 and row.start_offset == -1 and row.leader_epoch == 0:
        return ShareOutcome()  # a summary of a share partition that was not initialized
    return ShareOutcome(
        state=ShareState(
            snapshot_epoch=0,
            state_epoch=row.state_epoch,
            leader_epoch=getattr(row, "leader_epoch", -1),
            start_offset=row.start_offset,
            delivery_complete_count=getattr(row, "delivery_complete_count", UNKNOWN_COUNT),
            create_timestamp=0,
            write_timestamp=0,
            batches=[
                StoredBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
                for batch in getattr(row, "state_batches", ())
            ],
        )
    )
