"""Producers of acks=all that wait for the in-sync replicas (Kafka's produce purgatory)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse

if TYPE_CHECKING:
    from ottla.broker.partitions import Partition


class Acknowledgements:
    """One request's. It is answered when every partition has committed what it appended, has failed to, or the
    producer's time is up: what was appended stays, and the producer is told that nobody knows what becomes of it."""

    __slots__ = ("_flushed", "_response", "_rows", "_timeout", "future")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        response: ProduceResponse,
        uncommitted: list[tuple[Partition, int, PartitionProduceResponse]],
        timeout_ms: int,
        flushed: asyncio.Future[ProduceResponse] | None,
    ) -> None:
        """`flushed` is the end of a flush that some partitions wait for, too."""
        self._response = response
        self._flushed = flushed
        self._rows = {partition: row for partition, _, row in uncommitted}
        self.future: asyncio.Future[ProduceResponse] = loop.create_future()
        self._timeout = loop.call_later(max(timeout_ms, 0) / 1000, self._time_out)
        for partition, end_offset, _ in uncommitted:
            partition.await_commit(end_offset, self)

    @property
    def is_over(self) -> bool:
        return self.future.done()

    def committed(self, partition: Partition) -> None:
        row = self._rows.pop(partition, None)
        if row is None:
            return
        try:
            partition.check_in_sync()
        except KafkaError:
            _fail(row, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        self._answer_if_done()

    def failed(self, partition: Partition, error: KafkaError) -> None:
        row = self._rows.pop(partition, None)
        if row is not None:
            _fail(row, error.code)
            self._answer_if_done()

    def _answer_if_done(self) -> None:
        if self._rows:
            return
        self._timeout.cancel()
        if self._flushed is not None and not self._flushed.done():
            self._flushed.add_done_callback(lambda _: self._answer())
        else:
            self._answer()

    def _answer(self) -> None:
        if not self.future.done():
            self.future.set_result(self._response)

    def _time_out(self) -> None:
        rows, self._rows = self._rows, {}
        for row in rows.values():
            _fail(row, ErrorCode.REQUEST_TIMED_OUT)
        self._answer()
        for partition in rows:
            partition.drop_overdue()


def _fail(row: PartitionProduceResponse, code: ErrorCode) -> None:
    row.error_code = code
    row.base_offset = -1
    row.log_start_offset = -1
