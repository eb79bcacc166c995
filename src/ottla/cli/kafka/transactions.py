"""kafka-transactions: the transactions of a cluster, those that hang, and how to end them."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from ottla.cli.kafka.connection import connect
from ottla.cli.kafka.exceptions import java_message
from ottla.cli.kafka.options import (
    INTEGER,
    KAFKA_VERSION,
    LONG,
    ArgumentKind,
    ToolError,
    whole_number,
)
from ottla.cli.kafka.subcommands import Argument, ArgumentError, Command, CommandParser, Group, HelpWanted
from ottla.cli.kafka.tables import print_table
from ottla.client.admin import ActiveProducer, Admin, PartialFailure, TransactionListing
from ottla.client.core.partitions import by_topic
from ottla.client.errors import ErrorCode, KafkaError, UnknownTopicOrPartition, error_of
from ottla.client.metadata import TopicPartition
from ottla.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

SHORT = ArgumentKind("Short", whole_number(16))
COMMIT = "26b251a451ce941d"
"""Of Kafka 4.3.1, which --version names."""
MINUTE_MS = 60_000
BATCH_SIZE = 500
PRODUCERS = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
TRANSACTION = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
LISTED = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
HANGING = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)


class TransactionAdmin(Admin):
    """An admin client that reports the coordinator of a transaction, and asks a chosen broker for producers."""

    async def transactions_by_broker(
        self, *, producer_ids: Sequence[int] = (), longer_than_ms: int = -1, pattern: str | None = None
    ) -> dict[int, list[TransactionListing]]:
        async def ask(left: dict[int, None]) -> dict[int, list[TransactionListing] | KafkaError]:
            answers: dict[int, list[TransactionListing] | KafkaError] = {}
            for broker_id in left:
                request = ListTransactionsRequest(
                    producer_id_filters=list(producer_ids),
                    duration_filter=longer_than_ms,
                    transactional_id_pattern=pattern,
                )
                response: ListTransactionsResponse = await self._cluster.send(broker_id, request)
                answers[broker_id] = (
                    error_of(
                        response.error_code,
                        f"ListTransactions request sent to broker {broker_id} failed with an unexpected exception",
                    )
                    if response.error_code
                    else [
                        TransactionListing(one.transactional_id, one.producer_id, one.transaction_state)
                        for one in response.transaction_states
                    ]
                )
            return answers

        return await self._each(dict.fromkeys(await self._one(self._brokers)), ask)

    async def producers_on(
        self, broker_id: int | None, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        """The producers of partitions, as this broker or their leaders report them."""
        if broker_id is None:
            return await self.describe_producers(partitions)

        async def ask(left: dict[TopicPartition, None]) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
            request = DescribeProducersRequest(
                topics=[TopicRequest(name=name, partition_indexes=of) for name, of in by_topic(left).items()]
            )
            await self._brokers()
            response: DescribeProducersResponse = await self._cluster.send(broker_id, request)
            return {
                TopicPartition(topic.name, one.partition_index): error_of(one.error_code, one.error_message)
                if one.error_code
                else [
                    ActiveProducer(
                        producer.producer_id,
                        producer.producer_epoch,
                        producer.last_sequence,
                        producer.last_timestamp,
                        producer.coordinator_epoch,
                        producer.current_txn_start_offset,
                    )
                    for producer in one.active_producers
                ]
                for topic in response.topics
                for one in topic.partitions
            }

        return await self._each(dict.fromkeys(partitions), ask)


def command_parser() -> CommandParser:
    topic = Argument(("--topic",), "The topic.", is_required=True)
    partition = Argument(("--partition",), "The partition's number.", kind=INTEGER, is_required=True)
    return CommandParser(
        "kafka-transactions.sh",
        "Shows the transactions of producers, finds those that hang, and ends them.",
        [
            Argument(("-v", "--version"), "Show the version of Kafka whose tool this is.", is_flag=True),
            Argument(("--command-config",), "A properties file for the admin client.", "FILE"),
            Argument(("--bootstrap-server",), "Any brokers of the cluster.", "host:port", is_required=True),
        ],
        [
            Command(
                "list",
                "Show transactions.",
                [
                    Argument(("--duration-filter",), "Only those open for longer than so many ms.", kind=LONG),
                    Argument(("--transactional-id-pattern",), "Only ids that match this regular expression."),
                ],
            ),
            Command(
                "describe",
                "Show the state of one transactional id.",
                [Argument(("--transactional-id",), "The transactional id.", is_required=True)],
                "Shows the state of one transactional id.",
            ),
            Command(
                "describe-producers",
                "Show the producers of a partition.",
                [Argument(("--broker-id",), "As this replica knows it.", kind=INTEGER), topic, partition],
            ),
            Command(
                "abort",
                "Abort a transaction that hangs.",
                [topic, partition],
                groups=[
                    Group(
                        "Brokers on versions 3.0 and above",
                        [Argument(("--start-offset",), "Where the transaction begins.", kind=LONG)],
                        "The offset where it begins is all that is needed.",
                    ),
                    Group(
                        "Brokers on versions older than 3.0",
                        [
                            Argument(("--producer-id",), "The producer's id.", kind=LONG),
                            Argument(("--producer-epoch",), "The producer's epoch.", kind=SHORT),
                            Argument(("--coordinator-epoch",), "The coordinator's epoch.", kind=INTEGER),
                        ],
                        "All of these are needed.",
                    ),
                ],
            ),
            Command(
                "find-hanging",
                "Find transactions that never end.",
                [
                    Argument(("--broker-id",), "Look only at this broker.", kind=INTEGER),
                    Argument(
                        ("--max-transaction-timeout",),
                        "Leave out what wrote within so many minutes.",
                        kind=INTEGER,
                        default=15,
                    ),
                    Argument(("--topic",), "Look only at this topic."),
                    Argument(("--partition",), "Look only at this partition of it.", kind=INTEGER),
                ],
            ),
            Command(
                "forceTerminateTransaction",
                "End what a transactional id has open.",
                [Argument(("--transactionalId",), "The transactional id.", is_required=True)],
                "Ends what a transactional id has open, and fences its producer.",
            ),
        ],
        commands_title="commands",
        commands_name="COMMAND",
    )


def main(arguments: list[str]) -> int:
    parser = command_parser()
    if any(one in ("-v", "--version") for one in arguments):
        print(f"{KAFKA_VERSION} (Commit:{COMMIT})")
        return 0
    try:
        parsed = parser.parse(arguments)
        values = parsed.values
        try:
            admin: TransactionAdmin = connect(
                values["bootstrap_server"], values["command_config"], kind=TransactionAdmin
            )
        except ToolError as error:
            if values["command_config"] is None or error.cause is not None:
                print(f'Exception in thread "main" {error.trace}', end="", file=sys.stderr)
                return 1
            raise _failed("Failed to load admin client properties", error) from None
        asyncio.run(_run(admin, parsed.command or "", values))
    except HelpWanted as wanted:
        parser.show_help(wanted)
        return 1
    except ArgumentError as error:
        return parser.show_error(error)
    except ToolError as error:
        print(error.message, file=sys.stderr)
        return 1
    return 0


async def _run(admin: TransactionAdmin, command: str, values: dict[str, Any]) -> None:
    async with admin:
        if command == "list":
            await list_transactions(admin, values)
        elif command == "describe":
            await describe(admin, values["transactional_id"])
        elif command == "describe-producers":
            await describe_producers(admin, values)
        elif command == "abort":
            await abort(admin, values)
        elif command == "find-hanging":
            await find_hanging(admin, values)
        else:
            await force_terminate(admin, values["transactionalId"])


def _failed(what: str, error: KafkaError | ToolError) -> ToolError:
    message = java_message(error) if isinstance(error, KafkaError) else error.message
    return ToolError(f"{what}: {message}. Enable debug logging for additional detail.")


async def list_transactions(admin: TransactionAdmin, values: dict[str, Any]) -> None:
    longer = values["duration_filter"]
    try:
        found = await admin.transactions_by_broker(
            longer_than_ms=-1 if longer is None else longer, pattern=values["transactional_id_pattern"]
        )
    except KafkaError as error:
        raise _failed("Failed to list transactions", _first(error)) from None
    print_table(
        LISTED,
        [
            (one.transactional_id, broker_id, one.producer_id, one.state)
            for broker_id, listings in found.items()
            for one in listings
        ],
    )


async def describe(admin: TransactionAdmin, transactional_id: str) -> None:
    try:
        found = (await admin.describe_transactions([transactional_id]))[transactional_id]
    except KafkaError as error:
        if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            error = KafkaError(
                error.code,
                f"DescribeTransactions request for transactionalId `{transactional_id}` failed because the ID could "
                "not be found",
            )
        raise _failed(f"Failed to describe transaction state of transactional-id `{transactional_id}`", error) from None
    is_open = found.start_timestamp >= 0
    row = (
        found.coordinator_id,
        transactional_id,
        found.producer_id,
        found.producer_epoch,
        found.state,
        found.timeout_ms,
        found.start_timestamp if is_open else "None",
        _now_ms() - found.start_timestamp if is_open else "None",
        ",".join(_told(partition) for partition in found.partitions),
    )
    print_table(TRANSACTION, [row])


async def describe_producers(admin: TransactionAdmin, values: dict[str, Any]) -> None:
    partition = TopicPartition(values["topic"], values["partition"])
    broker_id = values["broker_id"]
    try:
        await _check_there(admin, partition)
        producers = (await admin.producers_on(broker_id, [partition]))[partition]
    except KafkaError as error:
        where = "leader" if broker_id is None else f"broker {broker_id}"
        raise _failed(f"Failed to describe producers for partition {_told(partition)} on {where}", error) from None
    print_table(
        PRODUCERS,
        [
            (
                one.producer_id,
                one.producer_epoch,
                one.coordinator_epoch,
                one.last_sequence,
                one.last_timestamp,
                one.transaction_start_offset if one.transaction_start_offset >= 0 else "None",
            )
            for one in producers
        ],
    )


async def _check_there(admin: Admin, partition: TopicPartition) -> None:
    topic = (await admin.list_topics(include_internal=True)).get(partition.topic)
    if topic is None or not 0 <= partition.partition < len(topic.partitions):
        raise UnknownTopicOrPartition


async def abort(admin: TransactionAdmin, values: dict[str, Any]) -> None:
    partition = TopicPartition(values["topic"], values["partition"])
    if values["start_offset"] is None and values["producer_id"] is None:
        raise ToolError(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    if values["start_offset"] is not None:
        found = await _open_at(admin, partition, values["start_offset"])
        producer_id, epoch, coordinator_epoch = found.producer_id, found.producer_epoch, found.coordinator_epoch
    else:
        for name in ("producer-epoch", "coordinator-epoch"):
            if values[name.replace("-", "_")] is None:
                raise ToolError(f"Missing required argument --{name}")
        producer_id, epoch = values["producer_id"], values["producer_epoch"]
        coordinator_epoch = values["coordinator_epoch"]
    coordinator_epoch = max(coordinator_epoch, 0)
    try:
        await _check_there(admin, partition)
        await admin.abort_transaction(partition, producer_id, epoch, coordinator_epoch)
    except KafkaError as error:
        what = (
            f"AbortTransactionSpec(topicPartition={_told(partition)}, producerId={producer_id}, "
            f"producerEpoch={epoch}, coordinatorEpoch={coordinator_epoch})"
        )
        raise _failed(f"Failed to abort transaction {what}", error) from None


async def _open_at(admin: TransactionAdmin, partition: TopicPartition, start_offset: int) -> ActiveProducer:
    """The producer whose transaction begins at that offset."""
    try:
        await _check_there(admin, partition)
        producers = (await admin.describe_producers([partition]))[partition]
    except KafkaError as error:
        raise _failed(f"Failed to validate producer state for partition {_told(partition)}", error) from None
    for one in producers:
        if one.transaction_start_offset == start_offset >= 0:
            return one
    raise ToolError(
        f"Could not find any open transactions starting at offset {start_offset} on partition {_told(partition)}"
    )


async def find_hanging(admin: TransactionAdmin, values: dict[str, Any]) -> None:
    broker_id, topic, number = values["broker_id"], values["topic"], values["partition"]
    if topic is None and broker_id is None:
        raise ToolError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if number is not None and topic is None:
        raise ToolError("The --partition argument requires --topic to be provided")
    partitions = await _to_search(admin, broker_id, topic, number)
    old_ms = values["max_transaction_timeout"] * MINUTE_MS
    candidates = await _candidates(admin, broker_id, partitions, old_ms)
    hanging = await _hanging(admin, candidates) if candidates else []
    now = _now_ms()
    print_table(
        HANGING,
        [
            (
                partition.topic,
                partition.partition,
                one.producer_id,
                one.producer_epoch,
                one.coordinator_epoch,
                one.transaction_start_offset,
                one.last_timestamp,
                (now - one.last_timestamp) // MINUTE_MS,
            )
            for partition, one in hanging
        ],
    )


async def _to_search(
    admin: Admin, broker_id: int | None, topic: str | None, number: int | None
) -> list[TopicPartition]:
    if topic is not None and number is not None:
        return [TopicPartition(topic, number)]
    try:
        topics = await admin.list_topics(include_internal=True)
        if topic is not None and topic not in topics:
            raise UnknownTopicOrPartition
    except KafkaError as error:
        raise _failed("Failed to describe 1 topics" if topic is not None else "Failed to list topics", error) from None
    return [
        TopicPartition(name, one.partition)
        for name, info in topics.items()
        for one in info.partitions
        if topic in (None, name) and (broker_id is None or broker_id in one.replicas)
    ]


async def _candidates(
    admin: TransactionAdmin, broker_id: int | None, partitions: list[TopicPartition], old_ms: int
) -> list[tuple[TopicPartition, ActiveProducer]]:
    """Transactions that have been open and silent for so long."""
    found: list[tuple[TopicPartition, ActiveProducer]] = []
    for start in range(0, len(partitions), BATCH_SIZE):
        batch = partitions[start : start + BATCH_SIZE]
        try:
            producers = await admin.producers_on(broker_id, batch)
        except KafkaError as error:
            where = "Optional.empty" if broker_id is None else f"Optional[{broker_id}]"
            what = f"Failed to describe producers for {len(batch)} partitions on broker {where}"
            raise _failed(what, _first(error)) from None
        now = _now_ms()
        found += [
            (partition, one)
            for partition, writers in producers.items()
            for one in writers
            if one.transaction_start_offset >= 0 and now - one.last_timestamp > old_ms
        ]
    return found


async def _hanging(
    admin: TransactionAdmin, candidates: Iterable[tuple[TopicPartition, ActiveProducer]]
) -> list[tuple[TopicPartition, ActiveProducer]]:
    """The transactions for which no coordinator will write a marker."""
    waiting = list(candidates)
    producer_ids = list(dict.fromkeys(one.producer_id for _, one in waiting))
    try:
        listed = await admin.transactions_by_broker(producer_ids=producer_ids)
    except KafkaError as error:
        raise _failed(f"Failed to list transactions for {len(producer_ids)} producers", _first(error)) from None
    names = {one.producer_id: one.transactional_id for listings in listed.values() for one in listings}
    known: dict[str, tuple[TopicPartition, ...]] = {}
    for name in dict.fromkeys(names.values()):
        try:
            known[name] = (await admin.describe_transactions([name]))[name].partitions
        except KafkaError as error:
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise _failed(f"Failed to describe {len(names)} transactions", error) from None
    return [
        (partition, one) for partition, one in waiting if partition not in known.get(names.get(one.producer_id, ""), ())
    ]


async def force_terminate(admin: TransactionAdmin, transactional_id: str) -> None:
    try:
        await admin.fence_producers([transactional_id])
    except KafkaError as error:
        raise _failed(f"Failed to force terminate transactionalId `{transactional_id}`", error) from None


def _first(error: KafkaError) -> KafkaError:
    return next(iter(error.errors.values())) if isinstance(error, PartialFailure) else error


def _told(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
