"""A shard of the transaction coordinator: the transactional ids of one partition of `__transaction_state`.

Law: a command reads and decides; `replay(record)` alone changes what is known. The driver appends a decision's records
as one batch, replays them at once, and releases the reply and the effects when the records are durable. So a command
always sees the outcome of the one before it, and a coordinator that takes over sees the same after reading the log.

Two things are only in memory: which markers of a prepared transaction are written (after a restart all are written
again, which partitions recognise), and `last_producer_epoch`.

Kafka answers CONCURRENT_TRANSACTIONS while a record of the same transactional id is being written; here only while
markers are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ottla.config import BrokerConfig
from ottla.machine import Call, CoordinatorDecision
from ottla.records.batch import MAX_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from ottla.transactions.effects import SendMarkers, TopicPartition
from ottla.transactions.records import TransactionRecord, value_version
from ottla.transactions.transaction import (
    EPOCH_BUMP_SINCE,
    LAST_CLIENT_EPOCH,
    NO_EPOCH,
    NO_TIMEOUT_MS,
    Transaction,
    TransactionState,
    is_epoch_exhausted,
    new_record,
    partition_schemas,
)
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.records.transaction_log_value import TransactionLogValue

PRODUCER_FENCED_SINCE = {22: 4, 24: 2, 25: 2, 26: 2}
"""The first versions that answer PRODUCER_FENCED. Older versions of these APIs answer INVALID_PRODUCER_EPOCH."""
MAX_ID_BYTES = 32767
"""A transactional id is the key of a record, whose length has two bytes."""
DECIDED_TOGETHER = 500
"""How many timed out or expired transactional ids one decision handles."""


class TransactionShard:
    def __init__(
        self,
        *,
        config: Callable[[], BrokerConfig],
        transaction_version: Callable[[], int],
        new_producer_id: Callable[[], int | None],
        coordinator_epoch: int,
    ) -> None:
        self._config = config
        self._transaction_version = transaction_version
        """The level of the feature `transaction.version` in the cluster."""
        self._new_producer_id = new_producer_id
        """Draws an unused producer id; None while the node has none and must first request a block."""
        self.coordinator_epoch = coordinator_epoch
        self.transactions: dict[str, Transaction] = {}
        self.counts: Counter[str] = Counter()
        """Transactions that were decided here: "committed", "aborted", "timed_out"."""
        self._ongoing: dict[str, None] = {}
        """Transactional ids with an open transaction, which a timeout may end."""
        self._resumed: dict[str, None] = {}
        """Prepared transactions found in the log, whose markers must be written again."""
        self._retried: dict[str, tuple[int, int, int]] = {}
        """By transactional id: the epoch that the client sent, and the id and epoch that InitProducerId returns, until
        their record is replayed. If the write fails, the next request counts as a new one.
        """
        self._due: list[tuple[Callable[[list[str], int], CoordinatorDecision[None]], list[str]]] = []
        """What the last checks found: the function that decides, and its transactional ids."""
        self._abort_check_at = 0
        self._expiry_check_at = 0
        self._loaded_at = 0

    def __len__(self) -> int:
        return len(self.transactions)

    # --- InitProducerId

    def init_producer_id(
        self, request: InitProducerIdRequest, call: Call
    ) -> CoordinatorDecision[InitProducerIdResponse]:
        """A producer id and epoch for the client that now owns the transactional id; earlier clients are fenced."""
        try:
            return self._init_producer_id(request, call)
        except KafkaError as error:
            return CoordinatorDecision([], _init_failed(error.code, call))

    def _init_producer_id(
        self, request: InitProducerIdRequest, call: Call
    ) -> CoordinatorDecision[InitProducerIdResponse]:
        transactional_id = _checked_id(request.transactional_id)
        config = self._config()
        if request.enable2_pc and not config.transaction_two_phase_commit_enable:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        expected = None
        if request.producer_id != NO_PRODUCER_ID:
            expected = request.producer_id, request.producer_epoch
        if request.keep_prepared_txn:
            if not config.transaction_two_phase_commit_enable or self._transaction_version() < EPOCH_BUMP_SINCE:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
            if expected is not None:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
        timeout_ms = request.transaction_timeout_ms
        if request.enable2_pc:
            timeout_ms = NO_TIMEOUT_MS
        elif not 0 < timeout_ms <= config.transaction_max_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        self._retried.pop(transactional_id, None)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            producer_id = self._take_producer_id()
            value = TransactionLogValue(producer_id=producer_id, previous_producer_id=producer_id)
            return self._initialized(transactional_id, value, timeout_ms, call)
        if transaction.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if expected is not None and not _may_recover(transaction, *expected):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if transaction.state == TransactionState.ONGOING:
            if request.keep_prepared_txn:
                return self._keep_prepared(transaction, request.enable2_pc, call)
            if expected is not None and expected[1] != transaction.client_producer_epoch:
                # Kafka aborts the transaction first and fences the client at its retry; here it is fenced at once.
                raise KafkaError(ErrorCode.PRODUCER_FENCED)
            decision = self._fence(transaction, call.timestamp)
            return CoordinatorDecision(
                decision.records, _init_failed(ErrorCode.CONCURRENT_TRANSACTIONS, call), effects=decision.effects
            )
        value = transaction.value(TransactionState.EMPTY, call.timestamp)
        epoch = transaction.producer_epoch
        if expected is None or expected[1] == epoch:
            if is_epoch_exhausted(epoch):
                value.producer_id = self._take_producer_id()
                value.producer_epoch = 0
            else:
                value.producer_epoch = epoch + 1
            if expected is not None:
                self._retried[transactional_id] = expected[1], value.producer_id, value.producer_epoch
        elif expected[1] == transaction.last_producer_epoch:  # the answer was lost: give the same again
            self._retried[transactional_id] = expected[1], value.producer_id, value.producer_epoch
        else:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return self._initialized(transactional_id, value, timeout_ms, call)

    def _initialized(
        self, transactional_id: str, value: TransactionLogValue, timeout_ms: int, call: Call
    ) -> CoordinatorDecision[InitProducerIdResponse]:
        value.transaction_status = TransactionState.EMPTY
        value.transaction_timeout_ms = timeout_ms
        value.transaction_partitions = None
        value.transaction_start_timestamp_ms = NO_TIMESTAMP
        value.transaction_last_update_timestamp_ms = call.timestamp
        response = InitProducerIdResponse(producer_id=value.producer_id, producer_epoch=value.producer_epoch)
        return CoordinatorDecision([new_record(transactional_id, value, self._value_version())], response)

    def _keep_prepared(
        self, transaction: Transaction, is_two_phase: bool, call: Call
    ) -> CoordinatorDecision[InitProducerIdResponse]:
        """A new client takes over and will end the ongoing transaction itself (KIP-939). The transaction keeps the
        producer id and epoch of its records; the client gets the next ones.
        """
        value = transaction.value(TransactionState.ONGOING, call.timestamp)
        if is_epoch_exhausted(transaction.client_producer_epoch):
            value.next_producer_id = self._take_producer_id()
            value.next_producer_epoch = 0
        else:
            value.next_producer_id = transaction.client_producer_id
            value.next_producer_epoch = transaction.client_producer_epoch + 1
        value.previous_producer_id = transaction.client_producer_id
        if is_two_phase:
            value.transaction_timeout_ms = NO_TIMEOUT_MS
        response = InitProducerIdResponse(
            producer_id=value.next_producer_id,
            producer_epoch=value.next_producer_epoch,
            ongoing_txn_producer_id=transaction.producer_id,
            ongoing_txn_producer_epoch=transaction.producer_epoch,
        )
        return CoordinatorDecision([self._record(transaction, value)], response)

    # --- AddPartitionsToTxn, AddOffsetsToTxn

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        call: Call,
        *,
        client_version: int,
        api_key: int = 24,
    ) -> CoordinatorDecision[ErrorCode]:
        """Add partitions to the producer's transaction; the first ones begin it."""
        try:
            transaction = self._find(transactional_id)
            if transaction.is_prepared:
                raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
            if transaction.is_kept:
                if (producer_id, producer_epoch) == (transaction.next_producer_id, transaction.next_producer_epoch):
                    raise KafkaError(ErrorCode.INVALID_TXN_STATE, "a kept transaction can only be ended")
                if producer_id in (transaction.producer_id, transaction.next_producer_id):
                    raise KafkaError(ErrorCode.PRODUCER_FENCED)
            if producer_id != transaction.producer_id:
                raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            if producer_epoch != transaction.producer_epoch:
                raise KafkaError(ErrorCode.PRODUCER_FENCED)
        except KafkaError as error:
            return CoordinatorDecision([], _by_version(error.code, api_key, call.api_version))
        is_ongoing = transaction.state == TransactionState.ONGOING
        if is_ongoing and all(partition in transaction.partitions for partition in partitions):
            return CoordinatorDecision([], ErrorCode.NONE)
        together = {**transaction.partitions, **dict.fromkeys(partitions)}
        value = transaction.value(
            TransactionState.ONGOING,
            call.timestamp,
            transaction_partitions=partition_schemas(together),
            client_transaction_version=self._client_version(client_version),
        )
        if not is_ongoing:
            value.transaction_start_timestamp_ms = call.timestamp
        return CoordinatorDecision([self._record(transaction, value)], ErrorCode.NONE)

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Check that partitions are part of the producer's transaction. A partition's leader asks this before it
        accepts the transaction's first batch.
        """
        try:
            transaction = self._find(transactional_id)
            if producer_id != transaction.producer_id:
                raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            if producer_epoch != transaction.producer_epoch or transaction.is_kept:
                raise KafkaError(ErrorCode.PRODUCER_FENCED)
            if transaction.is_prepared:
                raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        return {
            partition: ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    # --- EndTxn

    def end_transaction(self, request: EndTxnRequest, call: Call) -> CoordinatorDecision[EndTxnResponse]:
        """Commit or abort. From version 5 on (protocol version 2) the client gets a new epoch with the answer, and a
        retry is recognised by its epoch; in older versions only by the state.
        """
        client_version = self._client_version(EPOCH_BUMP_SINCE if call.api_version > 4 else 0)
        try:
            transaction = self._find(request.transactional_id)
            if client_version < EPOCH_BUMP_SINCE:
                return self._end_without_bump(transaction, request, call)
            return self._end_with_bump(transaction, request, call, client_version)
        except KafkaError as error:
            code = _by_version(error.code, 26, call.api_version)
            return CoordinatorDecision([], EndTxnResponse(error_code=code))

    def _end_without_bump(
        self, transaction: Transaction, request: EndTxnRequest, call: Call
    ) -> CoordinatorDecision[EndTxnResponse]:
        if request.producer_id != transaction.client_producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if request.producer_epoch != transaction.client_producer_epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if transaction.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        complete = TransactionState.COMPLETE_COMMIT if request.committed else TransactionState.COMPLETE_ABORT
        if transaction.state == complete:
            return CoordinatorDecision([], EndTxnResponse())
        if transaction.state != TransactionState.ONGOING or transaction.is_kept:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        value = transaction.plan_end(request.committed, 0, NO_PRODUCER_ID, call.timestamp)
        return self._decided(transaction, value, call.timestamp, lambda _: EndTxnResponse())

    def _end_with_bump(
        self, transaction: Transaction, request: EndTxnRequest, call: Call, client_version: int
    ) -> CoordinatorDecision[EndTxnResponse]:
        if transaction.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        client_epoch = transaction.client_producer_epoch
        is_overflow_retry = (
            request.producer_id == transaction.previous_producer_id
            and request.producer_epoch == LAST_CLIENT_EPOCH
            and transaction.producer_epoch == 0
            and not transaction.is_kept
        )
        if request.producer_id != transaction.client_producer_id and not is_overflow_retry:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        is_complete = transaction.is_idle and transaction.state != TransactionState.EMPTY
        is_retry = is_complete and (is_overflow_retry or request.producer_epoch + 1 == client_epoch)
        if not is_retry and request.producer_epoch != client_epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if is_retry:
            was_committed = transaction.state == TransactionState.COMPLETE_COMMIT
            if request.committed != was_committed:
                raise KafkaError(ErrorCode.INVALID_TXN_STATE)
            response = EndTxnResponse(producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch)
            return CoordinatorDecision([], response)
        if request.committed and transaction.state != TransactionState.ONGOING:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        next_producer_id = self._take_producer_id() if is_epoch_exhausted(client_epoch) else NO_PRODUCER_ID
        value = transaction.plan_end(request.committed, client_version, next_producer_id, call.timestamp)
        return self._decided(transaction, value, call.timestamp, _ended)

    def _decided(
        self,
        transaction: Transaction,
        value: TransactionLogValue,
        timestamp: int,
        reply: Callable[[TransactionLogValue], Any],
    ) -> CoordinatorDecision[Any]:
        """The first record decides the outcome. A transaction without partitions needs no markers and is complete at
        once. `reply` is computed from the first record.
        """
        is_commit = value.transaction_status == TransactionState.PREPARE_COMMIT
        self.counts["committed" if is_commit else "aborted"] += 1
        records = [self._record(transaction, value)]
        effects = []
        if transaction.partitions:
            effects.append(
                SendMarkers(
                    transaction.transactional_id,
                    value.producer_id,
                    value.producer_epoch,
                    self.coordinator_epoch,
                    value.client_transaction_version,
                    is_commit,
                    tuple(transaction.partitions),
                )
            )
        else:
            prepared = Transaction.replay(transaction.transactional_id, value, transaction)
            records.append(self._record(prepared, prepared.plan_completion(timestamp)))
        return CoordinatorDecision(records, reply(value), effects=effects)

    def _fence(self, transaction: Transaction, timestamp: int) -> CoordinatorDecision[None]:
        """Abort an ongoing transaction and fence its producer, by decision of the coordinator."""
        version = self._client_version(self._transaction_version())
        if version >= EPOCH_BUMP_SINCE:
            is_exhausted = is_epoch_exhausted(transaction.client_producer_epoch)
            next_producer_id = self._take_producer_id() if is_exhausted else NO_PRODUCER_ID
            value = transaction.plan_end(False, version, next_producer_id, timestamp)
        else:
            value = transaction.plan_end(False, 0, NO_PRODUCER_ID, timestamp)
            value.producer_epoch = min(transaction.producer_epoch + 1, MAX_PRODUCER_EPOCH)
        return self._decided(transaction, value, timestamp, lambda _: None)

    # --- markers

    def markers_written(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        timestamp: int,
    ) -> CoordinatorDecision[None]:
        """The markers of a SendMarkers are written to these partitions (or the partitions were deleted). The last one
        completes the transaction. Reports about a completed transaction are ignored.
        """
        transaction = self.transactions.get(transactional_id)
        if (
            transaction is None
            or not transaction.is_prepared
            or (transaction.producer_id, transaction.producer_epoch) != (producer_id, producer_epoch)
        ):
            return CoordinatorDecision([], None)
        for partition in partitions:
            transaction.awaited.pop(partition, None)
        if transaction.awaited:
            return CoordinatorDecision([], None)
        return CoordinatorDecision([self._record(transaction, transaction.plan_completion(timestamp))], None)

    # --- records

    def replay(self, record: TransactionRecord, producer_id: int = NO_PRODUCER_ID) -> None:
        transactional_id = record.key.transactional_id
        if record.value is None:
            self.transactions.pop(transactional_id, None)
            self._ongoing.pop(transactional_id, None)
            self._resumed.pop(transactional_id, None)
            self._retried.pop(transactional_id, None)
            return
        before = self.transactions.get(transactional_id)
        transaction = Transaction.replay(transactional_id, record.value, before)
        retried = self._retried.pop(transactional_id, None)
        if retried is not None and retried[1:] == (transaction.producer_id, transaction.producer_epoch):
            transaction.last_producer_epoch = retried[0]
        self.transactions[transactional_id] = transaction
        if transaction.state == TransactionState.ONGOING and transaction.has_timeout:
            self._ongoing[transactional_id] = None
        else:
            self._ongoing.pop(transactional_id, None)
        if self._resumed and not transaction.is_prepared:
            self._resumed.pop(transactional_id, None)

    def loaded(self, now: int, timestamp: int) -> None:
        """The whole log has been replayed: prepared transactions continue, and timeouts begin to count."""
        config = self._config()
        self._loaded_at = now
        self._abort_check_at = now + config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._expiry_check_at = now + config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._resumed = {
            transaction.transactional_id: None for transaction in self.transactions.values() if transaction.is_prepared
        }
        self._retried.clear()

    def replay_transaction_end(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker in `__transaction_state` itself, which never occurs: nothing is written there in a transaction."""

    def unload(self, call: Call) -> list[Any]:
        """No request waits inside the shard, so unloading answers none."""
        return []

    # --- time passes

    def deadline(self) -> int | None:
        if self._resumed or self._due:
            return self._loaded_at
        if self._ongoing:
            return min(self._abort_check_at, self._expiry_check_at)
        return self._expiry_check_at if self.transactions else None

    def next_due(self, now: int, timestamp: int) -> CoordinatorDecision[None] | None:
        """The next decision that is due; None if there is none. The driver calls it until then. A decision whose write
        failed is due again at a later check.
        """
        if self._resumed:
            return self._resume(timestamp)
        config = self._config()
        if now >= self._abort_check_at:
            self._abort_check_at = now + config.transaction_abort_timed_out_transaction_cleanup_interval_ms
            self._find_due(
                self._abort,
                [
                    transactional_id
                    for transactional_id in self._ongoing
                    if self._is_timed_out(transactional_id, timestamp)
                ],
            )
        if now >= self._expiry_check_at:
            self._expiry_check_at = now + config.transaction_remove_expired_transaction_cleanup_interval_ms
            self._find_due(
                self._expire,
                [
                    transactional_id
                    for transactional_id in self.transactions
                    if self._is_expired(transactional_id, timestamp)
                ],
            )
        while self._due:
            decide, transactional_ids = self._due.pop(0)
            decision = decide(transactional_ids, timestamp)
            if decision.records:
                return decision
        return None

    def _find_due(
        self, decide: Callable[[list[str], int], CoordinatorDecision[None]], transactional_ids: list[str]
    ) -> None:
        for start in range(0, len(transactional_ids), DECIDED_TOGETHER):
            self._due.append((decide, transactional_ids[start : start + DECIDED_TOGETHER]))

    def _resume(self, timestamp: int) -> CoordinatorDecision[None]:
        records: list[TransactionRecord] = []
        effects: list[SendMarkers] = []
        for transactional_id in self._resumed:
            transaction = self.transactions[transactional_id]
            if transaction.awaited:
                effects.append(transaction.markers(self.coordinator_epoch))
            else:
                records.append(self._record(transaction, transaction.plan_completion(timestamp)))
        self._resumed = {}
        return CoordinatorDecision(records, None, effects=effects)

    def _is_timed_out(self, transactional_id: str, timestamp: int) -> bool:
        transaction = self.transactions.get(transactional_id)
        return (
            transaction is not None
            and transaction.state == TransactionState.ONGOING
            and transaction.has_timeout
            and transaction.start_timestamp + transaction.timeout_ms < timestamp
        )

    def _abort(self, transactional_ids: list[str], timestamp: int) -> CoordinatorDecision[None]:
        together: CoordinatorDecision[None] = CoordinatorDecision([], None)
        for transactional_id in transactional_ids:
            if not self._is_timed_out(transactional_id, timestamp):
                continue
            try:
                decision = self._fence(self.transactions[transactional_id], timestamp)
            except KafkaError:
                continue  # no producer id available: retried at the next check
            self.counts["aborted"] -= 1  # `_fence` counted it as aborted; it is a timeout
            self.counts["timed_out"] += 1
            together.records += decision.records
            together.effects += decision.effects
        return together

    def _is_expired(self, transactional_id: str, timestamp: int) -> bool:
        transaction = self.transactions.get(transactional_id)
        return (
            transaction is not None
            and transaction.is_idle
            and transaction.last_update_timestamp <= timestamp - self._config().transactional_id_expiration_ms
        )

    def _expire(self, transactional_ids: list[str], timestamp: int) -> CoordinatorDecision[None]:
        version = self._value_version()
        expired = [
            transactional_id for transactional_id in transactional_ids if self._is_expired(transactional_id, timestamp)
        ]
        return CoordinatorDecision([new_record(transactional_id, None, version) for transactional_id in expired], None)

    # --- for metrics

    def counts_by_state(self) -> Counter[TransactionState]:
        return Counter(transaction.state for transaction in self.transactions.values())

    # --- small things

    def _find(self, transactional_id: str | None) -> Transaction:
        transaction = self.transactions.get(_checked_id(transactional_id))
        if transaction is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return transaction

    def _take_producer_id(self) -> int:
        producer_id = self._new_producer_id()
        if producer_id is None:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id at hand yet")
        return producer_id

    def _client_version(self, version: int) -> int:
        """Protocol version 2 needs records that can hold its fields."""
        return version if self._value_version() else 0

    def _value_version(self) -> int:
        return value_version(self._transaction_version())

    def _record(self, transaction: Transaction, value: TransactionLogValue | None) -> TransactionRecord:
        return transaction.record(value, self._value_version())


def _checked_id(transactional_id: str | None) -> str:
    if not transactional_id or len(transactional_id.encode("utf-8", "replace")) > MAX_ID_BYTES:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return transactional_id


def _may_recover(transaction: Transaction, producer_id: int, producer_epoch: int) -> bool:
    """Whether a client with this producer id may recover (KIP-360): the id must be the present one, or the previous one
    if its epochs ran out. The epoch is checked later.
    """
    if producer_id == transaction.client_producer_id:
        return True
    return producer_id == transaction.previous_producer_id and is_epoch_exhausted(producer_epoch)


def _ended(value: TransactionLogValue) -> EndTxnResponse:
    """The completed transaction, with the identity that its producer then has."""
    if value.next_producer_id != NO_PRODUCER_ID:
        return EndTxnResponse(producer_id=value.next_producer_id, producer_epoch=max(value.next_producer_epoch, 0))
    return EndTxnResponse(producer_id=value.producer_id, producer_epoch=value.producer_epoch)


def _init_failed(code: ErrorCode, call: Call) -> InitProducerIdResponse:
    code = _by_version(code, 22, call.api_version)
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)


def _by_version(code: ErrorCode, api_key: int, api_version: int) -> ErrorCode:
    if code == ErrorCode.PRODUCER_FENCED and api_version < PRODUCER_FENCED_SINCE[api_key]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
