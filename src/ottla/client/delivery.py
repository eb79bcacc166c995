"""What `send` returns: the promise that a record will be written, or the reason why it was not.

Cython compiles this file (types in delivery.pxd), and it runs as it stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from ottla.client.callbacks import call_back
from ottla.client.core.accumulator import Batch
from ottla.client.errors import ErrorCode, KafkaError, error_of


class RecordMetadata(NamedTuple):
    """Where a record was written."""

    topic: str
    partition: int
    offset: int
    """-1 if the broker did not tell: acks=0, or a batch that it had already."""
    timestamp: int
    """The record's own, or the broker's if the topic has message.timestamp.type=LogAppendTime."""


class Delivery:
    """One record on its way. `await` it for its RecordMetadata; or look at `done`, `result`, `exception`.

    All records of a batch share its fate, so a delivery is only a place in a batch: nothing is done per record when the
    batch is written, unless a caller waits.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Any, index: int) -> None:
        self._batch: Batch = batch
        self._index = index

    def done(self) -> bool:
        """Whether the record is written, or given up.

        Example:

            delivery = producer.send("orders", b"one apple")
            print(delivery.done())
        """
        return self._batch.is_done

    def exception(self) -> KafkaError | None:
        """Why the record was not written; None if it was. Only when done.

        Example:

            delivery = producer.send("orders", b"one apple")
            await producer.flush()
            print(delivery.exception() or "written")
        """
        if not self.done():
            raise asyncio.InvalidStateError("the record is still on its way")
        batch, index = self._batch.place_of(self._index)
        if batch.error is None:
            return None
        if batch.record_errors:
            if index in batch.record_errors:
                return error_of(batch.error.code, batch.record_errors[index] or batch.error.message)
            return error_of(ErrorCode.INVALID_RECORD, "another record of the same batch was refused")
        return batch.error

    def result(self) -> RecordMetadata:
        """Where the record was written, or raises why it was not. Only when done.

        Example:

            delivery = producer.send("orders", b"one apple")
            await producer.flush()
            print(delivery.result().offset)
        """
        error = self.exception()
        if error is not None:
            raise error
        batch, index = self._batch.place_of(self._index)
        topic, partition = batch.queue.partition
        offset = -1 if batch.base_offset < 0 else batch.base_offset + index
        timestamp = batch.log_append_time
        if timestamp < 0 and batch.timestamps:
            timestamp = batch.timestamps[index]
        return RecordMetadata(topic, partition, offset, timestamp)

    def add_done_callback(self, callback: Callable[[Delivery], Any]) -> None:
        """Call with this delivery when it is done; at once if it is. What the callback raises is logged.

        Example:

            def delivered(delivery):
                print(delivery.exception() or delivery.result())

            producer.send("orders", b"one apple").add_done_callback(delivered)
        """
        self._when_done(lambda: call_back(callback, self))

    def _when_done(self, callback: Callable[[], None]) -> None:
        if self.done():
            callback()
        else:
            self._batch.is_watched = True
            self._batch.callbacks.append(lambda _: callback())

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.done():
            waiter = asyncio.get_running_loop().create_future()
            self._when_done(lambda: None if waiter.done() else waiter.set_result(None))
            yield from waiter
        return self.result()

    def __repr__(self) -> str:
        if not self.done():
            return "<Delivery on its way>"
        error = self.exception()
        return f"<Delivery {self.result() if error is None else error}>"


class PendingDelivery(Delivery):
    """A record that has no batch yet: it waits for its topic's metadata, or for room in the buffer."""

    __slots__ = ("_callbacks", "_error", "_is_in")

    def __init__(self) -> None:
        super().__init__(None, 0)
        self._is_in = False
        self._error: KafkaError | None = None
        self._callbacks: list[Callable[[], None]] = []

    def enter(self, other: Delivery) -> None:
        """The record got a place in a batch."""
        self._batch, self._index = other._batch, other._index
        self._is_in = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self._when_done(callback)

    def refuse(self, error: KafkaError) -> None:
        self._error = error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def done(self) -> bool:
        return self._error is not None or (self._is_in and self._batch.is_done)

    def exception(self) -> KafkaError | None:
        return self._error if self._error is not None else super().exception()

    def _when_done(self, callback: Callable[[], None]) -> None:
        if self._is_in or self._error is not None:
            super()._when_done(callback)
        else:
            self._callbacks.append(callback)
