"""A producer's identity and the sequence numbers by which brokers recognise its batches (KIP-98, KIP-360).

Each partition counts the records of a (producer id, epoch) from 0 on. A batch keeps its numbers when it is sent again,
so a broker that has it already says so. A gap can be closed by nothing but a new epoch, whose numbers begin at 0 again;
a producer without transactions takes the next epoch by itself. That is safe only when nothing of the old epoch can
still be written, so a partition changes over when nothing of it is on the wire and what waits was never sent or was
refused (what comes after a refused batch was refused, too).
"""

from __future__ import annotations

from ottla.client.core.accumulator import Batch, PartitionQueue
from ottla.records.batch import MAX_PRODUCER_EPOCH, MAX_SEQUENCE, NO_SEQUENCE


class Sequences:
    """The producer id and epoch in use, and the numbering of batches."""

    __slots__ = ("producer_epoch", "producer_id")

    def __init__(self) -> None:
        self.producer_id = -1
        self.producer_epoch = -1

    @property
    def has_id(self) -> bool:
        return self.producer_id >= 0

    def begin(self, producer_id: int, producer_epoch: int) -> None:
        """InitProducerId, or the end of a transaction, gave a new identity; empty partitions take it up."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    def forget(self) -> None:
        """The epochs of this producer id are used up, or the broker does not know it: another has to be asked for."""
        self.producer_id = self.producer_epoch = -1

    def prepare(self, queue: PartitionQueue) -> bool:
        """Whether the first batch of a queue may be sent under the present identity; closes a gap if it can be closed
        now. False: not yet (something is on the wire), or a new producer id is needed (`has_id`)."""
        first = queue.batches[0]
        if queue.needs_reset:
            if first.base_sequence != NO_SEQUENCE and not first.is_refused:
                return True  # it may have been written: its own numbers will tell
            if queue.on_wire:
                return False
            if not self._renew(queue):
                return False
            self._renumber(queue)
            if first.base_sequence == NO_SEQUENCE:
                self._number(first)
        elif first.base_sequence == NO_SEQUENCE:
            if (queue.producer_id, queue.producer_epoch) != (self.producer_id, self.producer_epoch):
                if not self.has_id:
                    return False
                if not queue.on_wire:
                    self._take_up(queue)
            self._number(first)
        return True

    def _renew(self, queue: PartitionQueue) -> bool:
        """An identity that this partition has not used."""
        if not self.has_id:
            return False
        if (queue.producer_id, queue.producer_epoch) == (self.producer_id, self.producer_epoch):
            if self.producer_epoch >= MAX_PRODUCER_EPOCH:
                self.forget()
                return False
            self.producer_epoch += 1
        return True

    def _take_up(self, queue: PartitionQueue) -> None:
        queue.producer_id, queue.producer_epoch = self.producer_id, self.producer_epoch
        queue.next_sequence = 0
        queue.needs_reset = False

    def _renumber(self, queue: PartitionQueue) -> None:
        self._take_up(queue)
        for batch in queue.batches:
            if batch.base_sequence != NO_SEQUENCE:
                self._number(batch)

    def _number(self, batch: Batch) -> None:
        queue = batch.queue
        batch.producer_id, batch.producer_epoch = queue.producer_id, queue.producer_epoch
        batch.base_sequence = queue.next_sequence
        batch.encoded = None
        batch.is_refused = batch.is_unsure = False
        queue.next_sequence = (queue.next_sequence + batch.count) & MAX_SEQUENCE

    def out_of_order(self, batch: Batch) -> bool:
        """The broker did not expect this batch. Whether to set it aside, and ask with what was sent after it.

        If an earlier batch is still to be sent, all is well once that is there. If the batch was sent before without an
        answer, the broker may have it and more: after a restart brokers remember only the last batch of a producer, and
        call all before it out of order. Then the one sent after it tells: a broker accepts it, as new or as a
        duplicate, only if it has everything before it. If none of those is accepted, none is written, and the numbering
        has a gap.
        """
        queue = batch.queue
        if any(other < batch for other in (*queue.batches, *queue.on_wire)):
            batch.is_refused = True
            return False
        if batch.is_unsure and any(other.is_unsure and batch < other for other in (*queue.batches, *queue.on_wire)):
            return True
        queue.needs_reset = True
        for refused in (*queue.aside, batch):
            refused.is_refused = True
        return False

    def proven(self, batch: Batch) -> list[Batch]:
        """The batches set aside that must be written, since this later one is."""
        return [other for other in batch.queue.aside if other < batch]

    def gave_up(self, batch: Batch) -> None:
        """A batch that has numbers will not be sent again: the batches after it must be numbered anew."""
        if batch.base_sequence != NO_SEQUENCE:
            batch.queue.needs_reset = True
