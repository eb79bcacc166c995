"""Writes the dead letters of one share partition, one batch at a time (KIP-1191).

Letters that wait are ranges of the share partition's machine, which bounds them with its window. Records are read from
the log when their batch is sent, and again when it is sent again: no copy is kept in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.share.batch_places import batch_places
from ottla.groups.share.dead_letters import LetterDelivery, LetterSource, LetterTarget, Verdict, letters
from ottla.groups.share.partition import LetterRange, SharePartition
from ottla.records import CorruptRecords, Record, build, read
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.ground import Ground
    from ottla.broker.replicas.partitions import Partition
    from ottla.broker.share.dead_letters import DeadLetterQueues, Queue
    from ottla.broker.share.meter import LetterCounts, ShareMeter
    from ottla.config import GroupConfig
    from ottla.groups.share.state_records import SharePartitionKey

log = logging.getLogger("ottla.share")

LETTERS_PER_BATCH: Final = 500
MAX_BATCH_BYTES: Final = 16_777_216
MAX_DECOMPRESSED_BYTES: Final = 16_777_216
"""The largest record batch, compressed and decompressed, whose records are copied: letters of a larger one have headers
only.
"""
MAX_INT: Final = 2**31 - 1


class _Batch(NamedTuple):
    """The records of a record batch by offset, and the offset behind it."""

    end_offset: int
    records: dict[int, Record]


_NO_BATCH: Final = _Batch(0, {})


class LetterWriter:
    def __init__(
        self,
        key: SharePartitionKey,
        partition: Partition,
        ground: Ground,
        queues: DeadLetterQueues,
        settings: Callable[[], GroupConfig],
        meter: ShareMeter,
        is_live: Callable[[], bool],
        confirm: Callable[[], Awaitable[object]],
        archive: Callable[[Sequence[LetterRange]], None],
    ) -> None:
        """`confirm` raises KafkaError if a later leader of the share partition may have loaded its state."""
        self._key = key
        self._source = LetterSource(key.group_id, partition.topic, partition.index)
        self._partition = partition
        self._ground = ground
        self._queues = queues
        self._settings = settings
        self._meter = meter
        self._is_live = is_live
        self._confirm = confirm
        self._archive = archive
        self._delivery = LetterDelivery()
        self._is_writing = False
        self._complaint = ""
        self._is_once = False
        """Whether the producer id is that of letters which are written once."""
        self._open_until = 0
        """When the coordinator may have forgotten that producer id."""
        self._state_epoch = -1
        self._is_unsure = False
        """Whether letters that are to be written may be in the queue already."""

    @property
    def _counts(self) -> LetterCounts:
        return self._meter.letters_of(self._source.group_id)

    def is_wanted(self, settings: GroupConfig) -> bool:
        """Whether the group has a dead-letter queue."""
        return settings.errors_deadletterqueue_topic_name != "" and self._queues.is_enabled

    def loaded(self, machine: SharePartition, state_epoch: int) -> None:
        """An earlier leader may have written the letters that are left to write now."""
        self._state_epoch = state_epoch
        self._is_unsure = machine.may_have_letters

    def wake(self, machine: SharePartition) -> None:
        """There may be letters to write."""
        if machine.may_have_letters and not self._is_writing:
            self._is_writing = True
            self._ground.spawn(self._write_all(machine))

    async def _write_all(self, machine: SharePartition) -> None:
        try:
            while self._is_live():
                ranges = machine.dead_letters(LETTERS_PER_BATCH)
                if not ranges:
                    break
                done = await self._deliver(machine, ranges)
                if self._is_live():
                    self._archive(done)
        finally:
            self._is_writing = False

    async def _deliver(self, machine: SharePartition, ranges: Sequence[LetterRange]) -> Sequence[LetterRange]:
        """Send letters until they are written or lost; returns their ranges, from the first on."""
        delivery = self._delivery
        while self._is_live():
            settings = self._settings()
            if not settings.errors_deadletterqueue_topic_name:
                self._counts.lost += sum(one.record_count for one in ranges)
                return ranges  # the group has no queue any more
            sent: Sequence[LetterRange] = delivery.planned or ranges
            is_once = settings.ottla_errors_deadletterqueue_once_enable
            self._counts.requests += 1
            try:
                async with self._queues.turn(settings.errors_deadletterqueue_topic_name):
                    queue = await self._queues.find(settings.errors_deadletterqueue_topic_name, self._source)
                    delivery.aim(queue.target)
                    if is_once != self._is_once or (is_once and self._ground.now() > self._open_until):
                        self._is_once, delivery.producer_id = is_once, None
                    if delivery.producer_id is None:
                        found = await self._open(machine, queue.target)
                        if found:
                            self._counts.found += len(found)
                            return found
                    sent = await self._send(sent, queue, settings)
                code = ErrorCode.NONE
            except KafkaError as error:
                code = error.code
                self._complain(settings.errors_deadletterqueue_topic_name, error)
                sent = delivery.planned or ranges
            count = sum(one.record_count for one in sent)
            is_required = settings.ottla_errors_deadletterqueue_required_enable or is_once
            verdict = delivery.answered(code, is_required=is_required)
            if verdict is Verdict.WRITTEN:
                self._counts.written += count
                self._complaint = ""
                return sent
            self._counts.failed += 1
            if verdict is Verdict.LOST:
                self._counts.lost += count
                return sent
            await asyncio.sleep(delivery.pause_ms / 1000)
        return ()

    async def _open(self, machine: SharePartition, target: LetterTarget) -> list[LetterRange]:
        """Get a producer id for the next batches. Where letters are written once: the records whose letters are in the
        queue already. These are archived before other letters are written, so the order in which records are archived
        is that of their letters; `LetterSearch` relies on it.
        """
        delivery, producers = self._delivery, self._queues.producers
        found: list[LetterRange] = []
        if not self._is_once:
            delivery.use(await self._queues.new_producer_id())
            return found
        producer = await producers.open(self._key, self._state_epoch)
        if self._is_unsure:
            delivery.forget()
            if producer.epoch > 0:
                wanted = machine.dead_letters(MAX_INT)
                found = await producers.find_written(producer, target, wanted, self._partition.log.log_start_offset)
        await self._confirm()
        self._is_unsure = True  # for the next time
        self._open_until = self._ground.now() + producers.lifetime_ms
        delivery.use(*producer)
        return found

    async def _send(self, ranges: Sequence[LetterRange], queue: Queue, settings: GroupConfig) -> Sequence[LetterRange]:
        """Write a batch of the first of these letters; returns the letters in it."""
        delivery, ground = self._delivery, self._ground
        is_cut = not delivery.planned
        originals: dict[int, Record] = {}
        if settings.errors_deadletterqueue_copy_record_enable:
            max_bytes = queue.max_message_bytes if is_cut else MAX_INT
            originals, ranges = self._read(ranges, max_bytes)
        written, covered = letters(
            self._source, ranges, originals, ground.clock(), queue.max_message_bytes, is_cut=is_cut
        )
        producer_id = delivery.producer_id
        assert producer_id is not None
        batch = build(
            written, producer_id=producer_id, producer_epoch=delivery.producer_epoch, base_sequence=delivery.sequence
        )
        delivery.sent(covered)
        await self._queues.write(queue.target, batch)
        return covered

    def _read(self, ranges: Sequence[LetterRange], max_bytes: int) -> tuple[dict[int, Record], Sequence[LetterRange]]:
        """The records of these ranges by offset, and the ranges that were read: it stops after `max_bytes` of keys and
        values. Records that the log no longer has, or that cannot be read, are left out.
        """
        found: dict[int, Record] = {}
        size, batch = 0, _NO_BATCH
        for index, one in enumerate(ranges):
            at = one.first_offset
            while at <= one.last_offset:
                if size > max_bytes:
                    cut = [one._replace(last_offset=at - 1)] if at > one.first_offset else []
                    return found, [*ranges[:index], *cut]
                if at >= batch.end_offset:
                    batch = self._read_batch(at)
                end = min(batch.end_offset, one.last_offset + 1)
                for offset in range(at, end):
                    record = batch.records.get(offset)
                    if record is not None:
                        found[offset] = record
                        size += len(record.key or b"") + len(record.value or b"")
                at = end
        return found, ranges

    def _read_batch(self, offset: int) -> _Batch:
        """The record batch with an offset, or the next one; without records if it cannot be read."""
        end_offset = offset + 1
        try:
            piece = self._partition.log.read(offset, max_bytes=1)
            places = batch_places(piece, offset) if piece is not None else []
            if piece is not None and places:
                place = places[0]
                end_offset = max(place.last_offset, offset) + 1
                if place.size > MAX_BATCH_BYTES:
                    raise CorruptRecords(f"the batch has {place.size} bytes, more than {MAX_BATCH_BYTES}")
                data = piece.file.read(place.position, place.size)
                records = read(memoryview(data), max_decompressed=MAX_DECOMPRESSED_BYTES)
                return _Batch(end_offset, {record.offset: record for record in records})
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from None
        except CorruptRecords as error:
            source = self._source
            place_text = f"{source.topic}-{source.partition} at offset {offset}"
            log.warning(
                "share group %s: dead letters of %s are written without the record: %s",
                source.group_id,
                place_text,
                error,
            )
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
        return _Batch(end_offset, {})

    def _complain(self, topic: str, error: KafkaError) -> None:
        """Log each reason once."""
        if str(error) != self._complaint:
            self._complaint = str(error)
            log.warning(
                "share group %s: dead letters of %s-%d cannot be written to %s: %s",
                self._source.group_id,
                self._source.topic,
                self._source.partition,
                topic,
                error,
            )
