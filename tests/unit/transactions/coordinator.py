"""A shard with its log: what it decides is written as bytes and replayed, and a crash reads them again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.config import BrokerConfig
from ottla.machine import Call, CoordinatorDecision
from ottla.transactions import (
    SendMarkers,
    TopicPartition,
    TransactionShard,
    decode_record,
    encode_record,
)
from ottla.transactions.transaction import Transaction, TransactionState
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

ID = "payments"
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
START = 1_700_000_000_000


class Coordinator:
    def __init__(self, transaction_version: int = 2, **settings: str) -> None:
        self.transaction_version = transaction_version
        self.settings = {"node.id": "1", "process.roles": "broker,controller", **_dotted(settings)}
        self.now = 0
        self.timestamp = START
        self.producer_ids: list[int] = list(range(5000, 1000, -1))
        self.log: list[tuple[bytes, bytes | None]] = []
        self.effects: list[SendMarkers] = []
        self.epoch = 0
        self.shard = self._open()

    def _open(self) -> TransactionShard:
        config = BrokerConfig.parse(
            {
                "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": "1@127.0.0.1:9093",
                "log.dirs": "data",
                **self.settings,
            }
        )
        shard = TransactionShard(
            config=lambda: config,
            transaction_version=lambda: self.transaction_version,
            new_producer_id=lambda: self.producer_ids.pop() if self.producer_ids else None,
            coordinator_epoch=self.epoch,
        )
        for key, value in self.log:
            record = decode_record(key, value)
            assert record is not None
            shard.replay(record)
        shard.loaded(self.now, self.timestamp)
        return shard

    def crash(self) -> None:
        """Markers on their way are lost; another coordinator reads the log."""
        self.epoch += 1
        self.effects = []
        self.shard = self._open()
        self.run_due()

    def commit(self, decision: CoordinatorDecision[Any]) -> Any:
        """Write the records, read them as they were written, and let go what waits for them."""
        for record in decision.records:
            written = encode_record(record)
            self.log.append(written)
            read = decode_record(*written)
            assert read is not None
            self.shard.replay(read)
        self.effects += decision.effects
        return decision.reply

    def run_due(self) -> int:
        done = 0
        while (decision := self.shard.next_due(self.now, self.timestamp)) is not None:
            self.commit(decision)
            done += 1
        return done

    def pass_time(self, ms: int) -> int:
        self.now += ms
        self.timestamp += ms
        return self.run_due()

    def call(self, api_version: int) -> Call:
        return Call(self.now, self.timestamp, api_version)

    # --- commands

    def init(
        self,
        transactional_id: str | None = ID,
        *,
        timeout_ms: int = 60_000,
        expected: tuple[int, int] = (-1, -1),
        version: int = 5,
        **fields: Any,
    ) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
            **fields,
        )
        response = self.commit(self.shard.init_producer_id(request, self.call(version)))
        assert isinstance(response, InitProducerIdResponse)
        return response

    def producer(self, transactional_id: str = ID, **options: Any) -> tuple[int, int]:
        """The id and epoch of a client that has just begun."""
        response = self.init(transactional_id, **options)
        assert response.error_code == ErrorCode.NONE, ErrorCode(response.error_code)
        return response.producer_id, response.producer_epoch

    def add(
        self, producer: tuple[int, int], *partitions: TopicPartition, version: int = 4, transactional_id: str = ID
    ) -> ErrorCode:
        decision = self.shard.add_partitions(
            transactional_id, *producer, partitions, self.call(version), client_version=2 if version > 3 else 0
        )
        code: ErrorCode = self.commit(decision)
        return code

    def end(
        self, producer: tuple[int, int], *, commit: bool, version: int = 5, transactional_id: str = ID
    ) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commit,
        )
        response = self.commit(self.shard.end_transaction(request, self.call(version)))
        assert isinstance(response, EndTxnResponse)
        return response

    def write_markers(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """All markers asked for so far are written, or only those of some partitions."""
        for effect in self.effects:
            written = effect.partitions if partitions is None else partitions
            self.commit(
                self.shard.markers_written(
                    effect.transactional_id, effect.producer_id, effect.producer_epoch, written, self.timestamp
                )
            )
        if partitions is None:
            self.effects = []

    # --- what is known

    def transaction(self, transactional_id: str = ID) -> Transaction:
        return self.shard.transactions[transactional_id]

    def state(self) -> TransactionState:
        return self.transaction().state

    def set_epoch(self, epoch: int, transactional_id: str = ID) -> tuple[int, int]:
        """As if the producer had come this far."""
        transaction = self.transaction(transactional_id)
        value = transaction.value(TransactionState.EMPTY, self.timestamp, producer_epoch=epoch)
        value.transaction_partitions = None
        self.commit(CoordinatorDecision([transaction.record(value, 1)], None))
        return transaction.producer_id, epoch


def _dotted(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}
