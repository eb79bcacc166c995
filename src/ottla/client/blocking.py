"""The same clients for programs without an event loop: every call waits, the work is done on a thread of the client's.

    from ottla.client.blocking import Producer

    with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
        delivery = producer.send("orders", b"one apple", key=b"alice")
        print(delivery.result().offset)

A blocking client may be used from any number of threads, but for the consumer: that reads for one thread at a time. A
rebalance listener, on_error, on_statistics and delivery callbacks are called on the client's own thread.

A client does not survive a fork (gunicorn, celery and multiprocessing fork): make it in the child.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack

from ottla.client import admin as async_admin
from ottla.client import consumer as async_consumer
from ottla.client import lifetimes
from ottla.client import producer as async_producer
from ottla.client import share_consumer as async_share_consumer
from ottla.client.callbacks import call_back
from ottla.client.config import AdminConfig, ProducerConfig
from ottla.client.core.fetching import ConsumerRecord
from ottla.client.core.share_acknowledgements import AcknowledgeType
from ottla.client.core.share_fetching import ShareRecord
from ottla.client.errors import ClientClosed, MadeBeforeFork, RequestTimedOut
from ottla.client.producer import Delivery, Headers, RecordMetadata
from ottla.client.times import check_ms
from ottla.net import new_event_loop

if TYPE_CHECKING:
    from ottla.client.consumer_config import Deserializer
    from ottla.client.setting_types import AdminSettings, ConsumerSettings, ProducerSettings, ShareConsumerSettings

__all__ = ["Admin", "BlockingDelivery", "Consumer", "Producer", "ShareConsumer"]

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", covariant=True)

EXIT_SECONDS = 2.0
"""How long the interpreter waits at its exit for the thread of a client that was not closed."""
INBOX_COUNT = 4_000
"""So many records may be on their way from the caller's thread to the client's; then `send` waits."""


class _NoLoop:
    """In place of an event loop that runs in the parent of this process."""

    def call_soon_threadsafe(self, *_: object) -> None:
        raise MadeBeforeFork


class _LoopThread(lifetimes.Open):
    """An event loop that runs on a thread of its own until it is stopped."""

    def __init__(self, name: str) -> None:
        self.loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._is_stopped = False
        self._is_forked = False
        self._thread.start()
        lifetimes.opened(self)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        # An interrupted call may have left a client running: close it with everything it opened.
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def _forked(self) -> None:
        self._is_forked = self._is_stopped = True
        lifetimes.keep(self.loop)
        self.loop = _NoLoop()  # type: ignore[assignment]  # a call raises MadeBeforeFork

    def _before_exit(self) -> None:
        """No record is sent from now on, so the unsent ones can be counted."""
        self.stop(EXIT_SECONDS)

    @property
    def is_stopped(self) -> bool:
        return self._is_stopped

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Waits for the result of a coroutine; cancels the coroutine if the wait is interrupted."""
        if self._is_stopped:
            work.close()
            raise MadeBeforeFork if self._is_forked else ClientClosed
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError(
                "a blocking client cannot be used from its own callbacks: its thread would wait for itself"
            )
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except CancelledError:
            raise ClientClosed from None  # by another thread, while this one waited
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], R]) -> R:
        """The result of a function that is called on the loop's thread."""

        async def called() -> R:
            return function()

        return self.run(called())

    def stop(self, timeout: float | None = None) -> None:
        if self._is_stopped:
            return
        self._is_stopped = True
        lifetimes.closed(self)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout)

    def abandon(self, closing: Coroutine[Any, Any, None]) -> None:
        """Close the client, then end, without a caller that waits for it."""

        async def close() -> None:
            try:
                await closing
            finally:
                self.loop.stop()

        asyncio.run_coroutine_threadsafe(close(), self.loop)


class _Blocking(lifetimes.Open, Generic[C]):
    """A client and the thread it lives on."""

    def __init__(self, name: str, make: Callable[[], C]) -> None:
        self._thread = _LoopThread(name)
        try:
            self._client = self._thread.call(make)
        except BaseException:
            self._thread.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._close(error)

    def __del__(self) -> None:
        thread = getattr(self, "_thread", None)
        if thread is None or thread.is_stopped or not hasattr(self, "_client"):
            return
        warnings.warn(f"unclosed {type(self).__name__} (blocking)", ResourceWarning, source=self, stacklevel=2)
        client: Any = self._client
        thread.abandon(client.close())

    def close(self) -> None:
        """End the client and its thread.

        Example:

            producer = Producer(bootstrap_servers="127.0.0.1:9092")
            try:
                producer.send("orders", b"one apple")
            finally:
                producer.close()
        """
        self._close(lifetimes.unwinding_error())

    def _close(self, error: BaseException | None) -> None:
        client: Any = self._client
        try:
            self._thread.run(client.__aexit__(type(error), error, None))
        except (ClientClosed, MadeBeforeFork):
            return
        finally:
            self._thread.stop()


def _waits(method: Callable[Concatenate[C, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[_Blocking[C], P], R]:
    """A coroutine method as a blocking one."""

    def waiting(self: _Blocking[C], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._thread.run(method(self._client, *args, **kwargs))

    return _like(waiting, method)


def _calls(method: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[_Blocking[C], P], R]:
    """A plain method, called on the client's thread."""

    def calling(self: _Blocking[C], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._thread.call(lambda: method(self._client, *args, **kwargs))

    return _like(calling, method)


def _like(function: Callable[P, R], method: Any) -> Callable[P, R]:
    function.__name__ = method.__name__
    function.__doc__ = _blocking_doc(method.__doc__)
    return function


def _blocking_doc(doc: str) -> str:
    """The docstring, with an example that does not `await`."""
    text, found, example = doc.partition("Example:")
    return text + found + example.replace("await ", "").replace("async ", "")


class BlockingDelivery:
    """One record on its way: `result` waits for its RecordMetadata."""

    __slots__ = ("_delivery", "_error", "_thread")

    def __init__(self, thread: _LoopThread) -> None:
        self._thread = thread
        self._delivery: Delivery | None = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Whether the record is written, or given up.

        Example:

            delivery = producer.send("orders", b"one apple")
            print(delivery.done())
        """
        return self._error is not None or (self._delivery is not None and self._delivery.done())

    def result(self, timeout_ms: int | None = None) -> RecordMetadata:
        """Where the record was written, or raises why it was not; RequestTimedOut if that is not known in time.

        Example:

            print(producer.send("orders", b"one apple").result(timeout_ms=10_000).offset)
        """
        if not self.done():
            check_ms(timeout_ms, "result")
            self._thread.run(self._wait(timeout_ms))
        if self._error is not None:
            raise self._error
        if self._delivery is None:
            raise ClientClosed("the producer was closed before the record was sent")
        return self._delivery.result()

    async def _wait(self, timeout_ms: int | None) -> None:
        """Return when the record is written or was refused, whichever it is."""
        # Records leave the caller's thread in order: what was sent before this call has arrived.
        if self._delivery is None:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._delivery.add_done_callback(lambda _: None if waiter.done() else waiter.set_result(None))
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                await waiter
        except TimeoutError:
            raise RequestTimedOut(f"not written within {timeout_ms} ms") from None

    def add_done_callback(self, callback: Callable[[BlockingDelivery], Any]) -> None:
        """Call with this delivery when it is done, on the client's thread.

        Example:

            def delivered(delivery):
                print(delivery.result())

            producer.send("orders", b"one apple").add_done_callback(delivered)
        """

        def added() -> None:
            if self._delivery is None:
                call_back(callback, self)
            else:
                self._delivery.add_done_callback(lambda _: callback(self))

        self._thread.loop.call_soon_threadsafe(added)


class Producer(_Blocking[async_producer.Producer]):
    """A producer that blocks: `send` returns at once unless the buffer is full, `result` and `flush` wait."""

    def __init__(
        self, config: ProducerConfig | Mapping[str, Any] | None = None, /, **settings: Unpack[ProducerSettings]
    ) -> None:
        super().__init__("ottla-producer", lambda: async_producer.Producer(config, **settings))
        self._inbox: deque[tuple[tuple[Any, ...], BlockingDelivery]] = deque()
        self._is_draining = False
        lifetimes.opened(self)

    def _forked(self) -> None:
        self._inbox = deque()
        self._is_draining = False  # by a thread that this process does not have

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> BlockingDelivery:
        """Send a record. Waits while the buffer is full; whatever else is wrong is raised by the delivery's result.

        Example:

            written = producer.send("orders", b"one apple", key=b"alice").result()
        """
        if len(self._inbox) >= INBOX_COUNT:
            self._thread.run(self._client.room())
        delivery = BlockingDelivery(self._thread)
        self._inbox.append(((topic, value, key, headers, partition, timestamp), delivery))
        if not self._is_draining:
            self._is_draining = True
            try:
                self._thread.loop.call_soon_threadsafe(self._drain)
            except MadeBeforeFork:
                self._forked()
                raise
            except RuntimeError:
                self._is_draining = False
                raise ClientClosed("the producer is closed") from None
        return delivery

    def _drain(self) -> None:
        """On the client's thread: hand on what has been sent since the last time."""
        self._is_draining = False
        inbox, send = self._inbox, self._client.send
        while inbox:
            record, delivery = inbox.popleft()
            try:
                delivery._delivery = send(*record)
            except Exception as error:
                delivery._error = error

    @contextmanager
    def transaction(self) -> Iterator[Producer]:
        """A transaction that is committed at the end of the block, and aborted if the block raises.

        Example:

            with producer.transaction():
                producer.send("orders", b"one apple")
                producer.send("payments", b"1.20")
        """
        block = self._client.transaction()
        self._thread.run(block.__aenter__())
        try:
            yield self
        except BaseException as error:
            self._thread.run(_leave(block, error))
            raise
        self._thread.run(_leave(block, None))

    send_many = _waits(async_producer.Producer.send_many)
    flush = _waits(async_producer.Producer.flush)
    room = _waits(async_producer.Producer.room)
    send_table = _waits(async_producer.Producer.send_table)
    partitions = _waits(async_producer.Producer.partitions)
    init_transactions = _waits(async_producer.Producer.init_transactions)
    begin_transaction = _waits(async_producer.Producer.begin_transaction)
    commit_transaction = _waits(async_producer.Producer.commit_transaction)
    abort_transaction = _waits(async_producer.Producer.abort_transaction)
    send_offsets = _waits(async_producer.Producer.send_offsets)


async def _leave(block: Any, error: BaseException | None) -> None:
    try:
        if error is None:
            await block.__aexit__(None, None, None)
        else:
            await block.__aexit__(type(error), error, error.__traceback__)
    except BaseException as raised:
        if raised is not error:
            raise


class Consumer(_Blocking[async_consumer.Consumer[Any, Any]]):
    """A consumer that blocks: `poll`, or `for record in consumer`."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        given: dict[str, Any] = {**settings}
        if key_deserializer is not None:
            given["key_deserializer"] = key_deserializer
        if value_deserializer is not None:
            given["value_deserializer"] = value_deserializer
        super().__init__("ottla-consumer", lambda: async_consumer.Consumer(config, **given))

    def __iter__(self) -> Iterator[ConsumerRecord[Any, Any]]:
        """Records without end; stop by leaving the loop."""
        while True:
            yield from self.poll(1_000)

    def batches(self, *, max_records: int | None = None) -> Iterator[list[ConsumerRecord[Any, Any]]]:
        """`for records in consumer.batches()`: what poll returns, without end and without empty lists.

        Example:

            for records in consumer.batches(max_records=100):
                print(len(records))
                break
        """
        while True:
            if records := self.poll(1_000, max_records=max_records):
                yield records

    poll = _waits(async_consumer.Consumer[Any, Any].poll)
    poll_arrow = _waits(async_consumer.Consumer[Any, Any].poll_arrow)
    commit = _waits(async_consumer.Consumer[Any, Any].commit)
    committed = _waits(async_consumer.Consumer[Any, Any].committed)
    position = _waits(async_consumer.Consumer[Any, Any].position)
    unsubscribe = _waits(async_consumer.Consumer[Any, Any].unsubscribe)
    seek_to_time = _waits(async_consumer.Consumer[Any, Any].seek_to_time)
    offsets_for_times = _waits(async_consumer.Consumer[Any, Any].offsets_for_times)
    beginning_offsets = _waits(async_consumer.Consumer[Any, Any].beginning_offsets)
    end_offsets = _waits(async_consumer.Consumer[Any, Any].end_offsets)
    partitions_for = _waits(async_consumer.Consumer[Any, Any].partitions_for)
    subscribe = _calls(async_consumer.Consumer[Any, Any].subscribe)
    assign = _calls(async_consumer.Consumer[Any, Any].assign)
    subscription = _calls(async_consumer.Consumer[Any, Any].subscription)
    assignment = _calls(async_consumer.Consumer[Any, Any].assignment)
    seek = _calls(async_consumer.Consumer[Any, Any].seek)
    seek_to_beginning = _calls(async_consumer.Consumer[Any, Any].seek_to_beginning)
    seek_to_end = _calls(async_consumer.Consumer[Any, Any].seek_to_end)
    pause = _calls(async_consumer.Consumer[Any, Any].pause)
    resume = _calls(async_consumer.Consumer[Any, Any].resume)
    paused = _calls(async_consumer.Consumer[Any, Any].paused)
    lag = _calls(async_consumer.Consumer[Any, Any].lag)
    group_metadata = _calls(async_consumer.Consumer[Any, Any].group_metadata)


class ShareConsumer(_Blocking[async_share_consumer.ShareConsumer[Any, Any]]):
    """A share consumer that blocks: `poll`, or `for record in consumer`."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **settings: Unpack[ShareConsumerSettings],
    ) -> None:
        given: dict[str, Any] = {**settings}
        if key_deserializer is not None:
            given["key_deserializer"] = key_deserializer
        if value_deserializer is not None:
            given["value_deserializer"] = value_deserializer
        super().__init__("ottla-share-consumer", lambda: async_share_consumer.ShareConsumer(config, **given))

    def __iter__(self) -> Iterator[ShareRecord[Any, Any]]:
        """Records without end; stop by leaving the loop."""
        while True:
            yield from self._thread.run(self._client.next_record())

    def acknowledge(self, record: ShareRecord[Any, Any], kind: AcknowledgeType = AcknowledgeType.ACCEPT, /) -> None:
        """Say what becomes of a record of the last poll; see the async client's `acknowledge`.

        Example:

            for record in consumer.poll(1_000):
                consumer.acknowledge(record, AcknowledgeType.ACCEPT)
        """
        self._client.acknowledge(record, kind)  # touches no socket: no need to change threads for every record

    poll = _waits(async_share_consumer.ShareConsumer[Any, Any].poll)
    commit_sync = _waits(async_share_consumer.ShareConsumer[Any, Any].commit_sync)
    unsubscribe = _waits(async_share_consumer.ShareConsumer[Any, Any].unsubscribe)
    acknowledge_offset = _calls(async_share_consumer.ShareConsumer[Any, Any].acknowledge_offset)
    commit_async = _calls(async_share_consumer.ShareConsumer[Any, Any].commit_async)
    set_acknowledgement_commit_callback = _calls(
        async_share_consumer.ShareConsumer[Any, Any].set_acknowledgement_commit_callback
    )
    subscribe = _calls(async_share_consumer.ShareConsumer[Any, Any].subscribe)
    subscription = _calls(async_share_consumer.ShareConsumer[Any, Any].subscription)
    acquisition_lock_timeout_ms = _calls(async_share_consumer.ShareConsumer[Any, Any].acquisition_lock_timeout_ms)


class Admin(_Blocking[async_admin.Admin]):
    """An admin client that blocks."""

    def __init__(
        self, config: AdminConfig | Mapping[str, Any] | None = None, /, **settings: Unpack[AdminSettings]
    ) -> None:
        super().__init__("ottla-admin", lambda: async_admin.Admin(config, **settings))

    connect = _waits(async_admin.Admin.connect)
    create_topics = _waits(async_admin.Admin.create_topics)
    create_topic = _waits(async_admin.Admin.create_topic)
    delete_topics = _waits(async_admin.Admin.delete_topics)
    list_topics = _waits(async_admin.Admin.list_topics)
    describe_topics = _waits(async_admin.Admin.describe_topics)
    create_partitions = _waits(async_admin.Admin.create_partitions)
    delete_records = _waits(async_admin.Admin.delete_records)
    list_offsets = _waits(async_admin.Admin.list_offsets)
    elect_leaders = _waits(async_admin.Admin.elect_leaders)
    alter_partition_reassignments = _waits(async_admin.Admin.alter_partition_reassignments)
    list_partition_reassignments = _waits(async_admin.Admin.list_partition_reassignments)
    describe_configs = _waits(async_admin.Admin.describe_configs)
    alter_configs = _waits(async_admin.Admin.alter_configs)
    topic_config = _waits(async_admin.Admin.topic_config)
    set_topic_config = _waits(async_admin.Admin.set_topic_config)
    list_config_resources = _waits(async_admin.Admin.list_config_resources)
    describe_client_quotas = _waits(async_admin.Admin.describe_client_quotas)
    alter_client_quotas = _waits(async_admin.Admin.alter_client_quotas)
    update_features = _waits(async_admin.Admin.update_features)
    list_groups = _waits(async_admin.Admin.list_groups)
    describe_groups = _waits(async_admin.Admin.describe_groups)
    delete_groups = _waits(async_admin.Admin.delete_groups)
    group_offsets = _waits(async_admin.Admin.group_offsets)
    alter_group_offsets = _waits(async_admin.Admin.alter_group_offsets)
    delete_group_offsets = _waits(async_admin.Admin.delete_group_offsets)
    group_lag = _waits(async_admin.Admin.group_lag)
    describe_share_groups = _waits(async_admin.Admin.describe_share_groups)
    describe_streams_groups = _waits(async_admin.Admin.describe_streams_groups)
    list_share_group_offsets = _waits(async_admin.Admin.list_share_group_offsets)
    alter_share_group_offsets = _waits(async_admin.Admin.alter_share_group_offsets)
    delete_share_group_offsets = _waits(async_admin.Admin.delete_share_group_offsets)
    delete_share_groups = _waits(async_admin.Admin.delete_share_groups)
    remove_members = _waits(async_admin.Admin.remove_members)
    describe_cluster = _waits(async_admin.Admin.describe_cluster)
    describe_log_dirs = _waits(async_admin.Admin.describe_log_dirs)
    describe_quorum = _waits(async_admin.Admin.describe_quorum)
    describe_features = _waits(async_admin.Admin.describe_features)
    alter_replica_log_dirs = _waits(async_admin.Admin.alter_replica_log_dirs)
    add_raft_voter = _waits(async_admin.Admin.add_raft_voter)
    remove_raft_voter = _waits(async_admin.Admin.remove_raft_voter)
    unregister_broker = _waits(async_admin.Admin.unregister_broker)
    unregister_controller = _waits(async_admin.Admin.unregister_controller)
    list_transactions = _waits(async_admin.Admin.list_transactions)
    describe_transactions = _waits(async_admin.Admin.describe_transactions)
    describe_producers = _waits(async_admin.Admin.describe_producers)
    describe_acls = _waits(async_admin.Admin.describe_acls)
    create_acls = _waits(async_admin.Admin.create_acls)
    delete_acls = _waits(async_admin.Admin.delete_acls)
    describe_user_scram_credentials = _waits(async_admin.Admin.describe_user_scram_credentials)
    set_scram_password = _waits(async_admin.Admin.set_scram_password)
    delete_scram_password = _waits(async_admin.Admin.delete_scram_password)
    create_delegation_token = _waits(async_admin.Admin.create_delegation_token)
    renew_delegation_token = _waits(async_admin.Admin.renew_delegation_token)
    expire_delegation_token = _waits(async_admin.Admin.expire_delegation_token)
    describe_delegation_token = _waits(async_admin.Admin.describe_delegation_token)
    fence_producers = _waits(async_admin.Admin.fence_producers)
    abort_transaction = _waits(async_admin.Admin.abort_transaction)
