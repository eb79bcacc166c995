"""Produce requests with acks=all that wait for the in-sync replicas (Kafka's produce purgatory).

Cython compiles this file (types in purgatory.pxd), and it runs as it stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any

from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse

if TYPE_CHECKING:
    from ottla.broker.replicas.partitions import Partition
    from ottla.net import Deadlines

_FAILED = Struct(">hqqq")
"""error code, base offset, log append time, log start offset"""
_FAILED_WITHOUT_START = Struct(">hqq")


class DelayedProduce:
    """One Produce request, with the place of each partition's outcome in its answer. It is answered when every
    partition has committed its batch or failed, or when the producer's timeout has passed: then the batch stays in the
    log, and the answer is REQUEST_TIMED_OUT.
    """

    __slots__ = ("_rows", "_timeout", "is_over")

    if TYPE_CHECKING:
        is_over: bool

    def __init__(self, deadlines: Deadlines, uncommitted: list[tuple[Partition, int, Any]], timeout_ms: int) -> None:
        self.is_over = False
        self._rows: dict[Partition, Any] = {partition: row for partition, _, row in uncommitted}
        self._timeout = deadlines.call_later(max(timeout_ms, 0) / 1000, self._time_out)
        for partition, end_offset, _ in uncommitted:
            partition.park_commit(end_offset, self)

    def committed(self, partition: Partition) -> None:
        row = self._rows.pop(partition, None)
        if row is None:
            return
        if not partition.has_enough_in_sync():
            self._fail(row, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        if not self._rows:
            self._settle()

    def failed(self, partition: Partition, error: KafkaError) -> None:
        row = self._rows.pop(partition, None)
        if row is not None:
            self._fail(row, error.code)
            if not self._rows:
                self._settle()

    def cancel(self) -> None:
        """The connection is closed: no answer is needed."""
        self._rows = {}
        self.is_over = True
        self._timeout.cancel()

    def _settle(self) -> None:
        self._timeout.cancel()
        self._answer()

    def _time_out(self) -> None:
        rows, self._rows = self._rows, {}
        for row in rows.values():
            self._fail(row, ErrorCode.REQUEST_TIMED_OUT)
        self._answer()
        for partition in rows:
            partition.unpark_overdue()

    def _fail(self, row: Any, code: ErrorCode) -> None:
        raise AssertionError

    def _answer(self) -> None:
        raise AssertionError


class DelayedProduceResponse(DelayedProduce):
    """A delayed request that produce.py handled: its answer is an object."""

    __slots__ = ("_flushed", "_response", "future")

    def __init__(
        self,
        future: asyncio.Future[ProduceResponse],
        deadlines: Deadlines,
        response: ProduceResponse,
        uncommitted: list[tuple[Partition, int, PartitionProduceResponse]],
        timeout_ms: int,
        flushed: asyncio.Future[ProduceResponse] | None,
    ) -> None:
        """`flushed`: the end of a flush that some partitions also wait for."""
        self._response = response
        self._flushed = flushed
        self.future = future
        super().__init__(deadlines, uncommitted, timeout_ms)

    def _settle(self) -> None:
        self._timeout.cancel()
        if self._flushed is not None and not self._flushed.done():
            self._flushed.add_done_callback(self._flush_ended)
        else:
            self._answer()

    def _flush_ended(self, flushed: asyncio.Future[ProduceResponse]) -> None:
        self._answer()

    def _answer(self) -> None:
        self.is_over = True
        if not self.future.done():
            self.future.set_result(self._response)

    def _fail(self, row: PartitionProduceResponse, code: ErrorCode) -> None:
        row.error_code = code
        row.base_offset = -1
        row.log_start_offset = -1


class DelayedProduceFrame(DelayedProduce):
    """A delayed request that produce_frame.py handled: its answer is already encoded, with success for every partition.
    A row is the position of a partition's error code; a failure overwrites it.
    """

    __slots__ = ("_has_log_start", "_response", "on_answer")

    def __init__(
        self,
        deadlines: Deadlines,
        response: bytearray,
        uncommitted: list[tuple[Partition, int, int]],
        timeout_ms: int,
        has_log_start: bool,
    ) -> None:
        self._response = response
        self._has_log_start = has_log_start
        self.on_answer: Callable[[bytearray], None]
        super().__init__(deadlines, uncommitted, timeout_ms)

    def _answer(self) -> None:
        if not self.is_over:
            self.is_over = True
            self.on_answer(self._response)

    def _fail(self, row: int, code: ErrorCode) -> None:
        if self._has_log_start:
            _FAILED.pack_into(self._response, row, code, -1, -1, -1)
        else:
            _FAILED_WITHOUT_START.pack_into(self._response, row, code, -1, -1)
