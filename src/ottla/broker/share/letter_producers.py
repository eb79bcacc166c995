"""Producer ids for letters that are written once whichever leader dies (`ottla.errors.deadletterqueue.once.enable`).

Each share partition has a transactional id of its own, so the transaction coordinator gives all of its leaders one
producer id, and each a higher epoch. A leader that takes over records without a stored end writes a marker with its
epoch into the queue: no earlier leader's batch can be appended behind it. Then it searches the queue for letters that
are there already. No transaction is ever begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.groups.share.dead_letters import LetterTarget
from ottla.groups.share.letter_search import LetterSearch
from ottla.groups.share.partition import LetterRange
from ottla.groups.share.state_records import SharePartitionKey
from ottla.net import NoAnswer
from ottla.records import CorruptRecords
from ottla.transactions import SendMarkers, TopicPartition, TransactionShard
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

if TYPE_CHECKING:
    from ottla.broker.coordinators.transactions import TransactionCoordinator
    from ottla.broker.ground import Ground
    from ottla.broker.peers.peers import Peers
    from ottla.broker.replicas.replicas import Replicas

PREFIX: Final = "__share-letters"
MAX_TRANSACTION_MS: Final = 60_000
READ_BYTES: Final = 1_048_576
CONSUMER: Final = -1
LATEST, EARLIEST = -1, -2
FULL_FETCH: Final = -1
PURPOSE: Final = "dlq"


class LetterProducer(NamedTuple):
    id: int
    epoch: int


class LetterProducers:
    def __init__(self, ground: Ground, replicas: Replicas, peers: Peers, transactions: TransactionCoordinator) -> None:
        self._ground = ground
        self._replicas = replicas
        self._peers = peers
        self._transactions = transactions

    @property
    def lifetime_ms(self) -> int:
        """How long a producer id is used before it is opened again: the coordinator forgets one that is not."""
        return self._ground.config.transactional_id_expiration_ms // 2

    async def open(self, key: SharePartitionKey, state_epoch: int) -> LetterProducer:
        """A new epoch of a share partition's producer id; 0: it has never been used. The state epoch tells the share
        partition from that of a group with the same name before, or before its offsets were altered.
        """
        ground, transactions = self._ground, self._transactions
        name = f"{PREFIX}.{key.group_id}.{key.topic_id.hex()}.{key.partition}.{state_epoch}"
        await transactions.create_topic()
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=min(ground.config.transaction_max_timeout_ms, MAX_TRANSACTION_MS),
        )
        leader = self._leader(transactions.topic, transactions.partition_for(name))
        if leader == ground.node_id:
            await transactions.reserve_producer_id()
            call = transactions.own_call(ground.now(), ground.clock())
            answer = transactions.run(name, TransactionShard.init_producer_id, request, call, _refused)
            response = await answer if isinstance(answer, asyncio.Future) else answer
        else:
            response = await self._ask(leader, request, lambda answer: answer)
        _raise(response.error_code)
        return LetterProducer(response.producer_id, response.producer_epoch)

    async def find_written(
        self, producer: LetterProducer, target: LetterTarget, wanted: Iterable[LetterRange], source_start_offset: int
    ) -> list[LetterRange]:
        """End the earlier epochs of this producer in the queue; the records that have their letter there."""
        await self._fence(producer, target)
        start_offset, end_offset = await self._ends(target)
        search = LetterSearch(producer.id, producer.epoch, wanted, source_start_offset, start_offset, end_offset)
        try:
            while search.offset is not None:
                search.take(await self._read(target, search.offset))
        except CorruptRecords as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
        return [LetterRange(offset, offset, 0, is_rejected=False) for offset in sorted(search.found)]

    async def _fence(self, producer: LetterProducer, target: LetterTarget) -> None:
        """No batch of an earlier epoch is appended once this marker is in the log of the queue's leader. It is an
        abort that ends nothing."""
        at = TopicPartition(target.topic, target.partition)
        leader = self._leader(*at)
        if leader == self._ground.node_id:
            written = self._transactions.markers.write(
                at, producer.id, producer.epoch, is_commit=False, coordinator_epoch=0, transaction_version=0
            )
            if written is not None:
                await self._commit(written)
            return
        told: asyncio.Future[dict[TopicPartition, ErrorCode]] = self._ground.loop.create_future()
        effect = SendMarkers(
            "",
            producer.id,
            producer.epoch,
            coordinator_epoch=0,
            transaction_version=0,
            is_commit=False,
            partitions=(at,),
        )

        def tell(codes: dict[TopicPartition, ErrorCode]) -> None:
            if not told.done():
                told.set_result(codes)

        self._transactions.remote.write_markers(leader, effect, [at], tell)
        _raise((await told)[at])

    async def _commit(self, written: asyncio.Future[None]) -> None:
        try:
            await asyncio.wait_for(written, self._ground.config.request_timeout_ms / 1000)
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "replicas in sync do not have the marker in time") from None
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None

    async def _ends(self, target: LetterTarget) -> tuple[int, int]:
        """The first offset of the queue's partition, and its high watermark."""
        leader = self._leader(target.topic, target.partition)
        if leader == self._ground.node_id:
            log = self._replicas.partition(target.topic, target.partition).log
            return log.log_start_offset, log.high_watermark
        first, last = [await self._offset(leader, target, timestamp) for timestamp in (EARLIEST, LATEST)]
        return first, last

    async def _offset(self, leader: int, target: LetterTarget, timestamp: int) -> int:
        row = ListOffsetsPartition(partition_index=target.partition, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=CONSUMER, topics=[ListOffsetsTopic(name=target.topic, partitions=[row])]
        )
        answer = await self._ask(leader, request, lambda answer: answer.topics[0].partitions[0])
        _raise(answer.error_code)
        offset: int = answer.offset
        return offset

    async def _read(self, target: LetterTarget, offset: int) -> bytes:
        """Batches of the queue from an offset on, at least one."""
        leader = self._leader(target.topic, target.partition)
        if leader == self._ground.node_id:
            log = self._replicas.partition(target.topic, target.partition).log
            try:
                piece = log.read(offset, max_bytes=READ_BYTES, end_offset=log.high_watermark)
                return piece.read() if piece is not None else b""
            except OSError as error:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
        row = FetchPartition(partition=target.partition, fetch_offset=offset, partition_max_bytes=READ_BYTES)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=READ_BYTES,
            session_epoch=FULL_FETCH,
            topics=[FetchTopic(topic=target.topic, topic_id=target.topic_id, partitions=[row])],
        )

        def take(answer: Any) -> tuple[int, bytes]:
            if answer.error_code:
                return answer.error_code, b""
            part = answer.responses[0].partitions[0]
            return part.error_code, bytes(part.records or b"")  # the buffer of the answer is used again

        found: tuple[int, bytes] = await self._ask(leader, request, take)
        _raise(found[0])
        return found[1]

    def _leader(self, topic: str, partition: int) -> int:
        image = self._ground.image.partition(topic, partition)
        if image is None or image.leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader")
        return image.leader

    async def _ask(self, broker_id: int, request: Message, take: Callable[[Any], Any]) -> Any:
        """Ask another broker. Returns `take(answer)`, called before the answer's buffer is used again."""
        ground = self._ground
        address = ground.broker_address(broker_id)
        if address is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {broker_id} is not known")
        answered: asyncio.Future[Any] = ground.loop.create_future()

        def answer_arrived(answer: Message | NoAnswer) -> None:
            if answered.done():
                return
            try:
                answered.set_result(answer if isinstance(answer, NoAnswer) else take(answer))
            except IndexError:
                answered.set_result(NoAnswer(False))  # an answer without the partition

        self._peers.send(*address, request, answer_arrived, ground.config.request_timeout_ms, purpose=PURPOSE)
        answer = await answered
        if isinstance(answer, NoAnswer):
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"broker {broker_id} does not answer")
        return answer


def _refused(request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)


def _raise(code: int) -> None:
    if code:
        raise KafkaError(ErrorCode(code))
