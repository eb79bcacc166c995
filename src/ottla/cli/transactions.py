"""`ottla transactions`: what transactions there are, which hang, and how to end them.

A transaction hangs when a partition waits for a marker that will never be written: its records are there, but no
coordinator knows of it (any more). Readers of committed records stop before it until someone ends it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.cli.groups import known_state
from ottla.cli.output import Column, counted, duration_text, emit, emit_done, notice
from ottla.cli.session import HELP, CommandError, Session, add_subcommand, add_yes_option, confirm, group_parser, run

if TYPE_CHECKING:
    from ottla.client.admin import Admin, TransactionDescription
    from ottla.client.core.partitions import TopicPartition
    from ottla.client.metadata import TopicInfo

COMMAND = "ottla transactions"
DEFAULT_AGE_MINUTES = 20
"""The broker's longest timeout, unless it was changed, and five minutes for the coordinator to do its work."""
MINUTE_MS = 60_000
STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead",
)  # fmt: skip
RUNNING = ("Ongoing", "PrepareCommit", "PrepareAbort")
EXAMPLES = """\
  ottla transactions list
  ottla transactions hanging                     partitions that wait for a transaction that never ends
  ottla transactions hanging --end               and end them: their records count as aborted
  ottla transactions abort ledger 3 17402        the transaction that begins at this offset of ledger-3
  ottla transactions end payments-7              abort what payments-7 has open, and fence its producer
"""


class OpenTransaction(NamedTuple):
    """A transaction, as a partition reports it."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: int


def parser() -> argparse.ArgumentParser:
    made, commands = group_parser(
        COMMAND, "Show transactions, find those that hang, and end them. Works with Apache Kafka, too.", EXAMPLES
    )
    listing = add_subcommand(
        commands,
        "list",
        "transactional ids, their state and their partitions",
        "  ottla transactions list\n  ottla transactions list --state Ongoing -o json\n",
    )
    listing.add_argument("--state", action="append", default=[], help="only this state, for example Ongoing")
    hanging = add_subcommand(
        commands,
        "hanging",
        "partitions that wait for a transaction that never ends",
        "  ottla transactions hanging\n  ottla transactions hanging --topic ledger --end\n",
    )
    hanging.add_argument(
        "--older-than",
        type=int,
        metavar="MINUTES",
        default=DEFAULT_AGE_MINUTES,
        help=f"since their last record ({DEFAULT_AGE_MINUTES})",
    )
    hanging.add_argument("--topic", action="append", default=[], help="look only here; may be repeated")
    hanging.add_argument("--end", action="store_true", help="end them, after asking: their records count as aborted")
    add_yes_option(hanging)
    abort = add_subcommand(
        commands,
        "abort",
        "end one transaction in one partition",
        "  ottla transactions abort ledger 3 17402\n",
    )
    abort.add_argument("topic")
    abort.add_argument("partition", type=int)
    abort.add_argument("start_offset", type=int, help="where the transaction begins, as `hanging` tells it")
    add_yes_option(abort)
    end = add_subcommand(
        commands,
        "end",
        "abort what a transactional id has open, and fence its producer",
        "  ottla transactions end payments-7\n",
    )
    end.add_argument("transactional_id")
    add_yes_option(end)
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments or HELP)
    work = {"list": show_list, "hanging": show_hanging, "abort": abort_one, "end": end_one}[options.command]
    return run(COMMAND, options, lambda session: work(session, options))


# --- list


async def show_list(session: Session, options: argparse.Namespace) -> None:
    states = [known_state(one, STATES) for one in options.state]
    rows = await listed(await session.admin(), states)
    columns = [
        Column("transactional_id", "TRANSACTIONAL ID"),
        Column("state", "STATE"),
        Column("producer_id", "PRODUCER"),
        Column("producer_epoch", "EPOCH"),
        Column("open_for_ms", "OPEN FOR", duration_text),
        Column("partitions", "PARTITIONS", ", ".join),
    ]
    emit(
        options.output,
        rows,
        columns,
        nothing=f"no transaction is {' or '.join(states)}" if states else "no transactions",
    )


async def listed(admin: Admin, states: Sequence[str]) -> list[dict[str, Any]]:
    now = int(time.time() * 1000)
    rows = []
    for one in await described(admin, states):
        is_open = one.state in RUNNING
        rows.append(
            {
                "transactional_id": one.transactional_id,
                "state": one.state,
                "producer_id": one.producer_id,
                "producer_epoch": one.producer_epoch,
                "open_for_ms": now - one.start_timestamp if is_open else None,
                "coordinator": one.coordinator_id,
                "partitions": [str(partition) for partition in one.partitions] or None,
            }
        )
    return rows


async def described(admin: Admin, states: Sequence[str]) -> list[TransactionDescription]:
    """Transactions of these states, with their partitions; those that ended since they were listed are left out."""
    from ottla.client.admin import PartialFailure
    from ottla.client.errors import ErrorCode, KafkaError

    ids = [one.transactional_id for one in await admin.list_transactions(states=states)]
    found: dict[str, TransactionDescription] = {}
    try:
        found = await admin.describe_transactions(ids)
    except PartialFailure as error:
        if any(one.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND for one in error.errors.values()):
            raise
        found = error.results
    except KafkaError as error:
        if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
    return [found[name] for name in ids if name in found]


# --- hanging


async def show_hanging(session: Session, options: argparse.Namespace) -> None:
    now = int(time.time() * 1000)
    found = await find_hanging(session, options.topic, options.older_than * MINUTE_MS, now)
    rows = [
        {
            "partition": str(one.partition),
            "start_offset": one.start_offset,
            "producer_id": one.producer_id,
            "producer_epoch": one.producer_epoch,
            "last_record_ms_ago": now - one.last_timestamp,
        }
        for one in found
    ]
    columns = [
        Column("partition", "PARTITION"),
        Column("start_offset", "START OFFSET"),
        Column("producer_id", "PRODUCER"),
        Column("producer_epoch", "EPOCH"),
        Column("last_record_ms_ago", "LAST RECORD", lambda age: f"{age / MINUTE_MS:.0f} min ago"),
    ]
    emit(options.output, rows, columns, nothing="no transaction hangs")
    if options.end and found:
        confirm(f"end {counted(len(found), 'transaction')}, so that their records count as aborted", options)
        for one in found:
            await abort(await session.admin(), one)
            notice(f"ended the transaction of {one.partition} at offset {one.start_offset}")


async def find_hanging(
    session: Session, topics: Sequence[str], older_than_ms: int, timestamp: int
) -> list[OpenTransaction]:
    """Open transactions of partitions that have been silent for so long and that no coordinator will end."""
    infos = await session.describe_topics(topics) if topics else None
    return await find_hanging_of(await session.admin(), older_than_ms, timestamp, infos)


async def find_hanging_of(
    admin: Admin, older_than_ms: int, timestamp: int, infos: Mapping[str, TopicInfo] | None = None
) -> list[OpenTransaction]:
    opened = await open_transactions_of(admin, infos)
    old = [one for one in opened if one.last_timestamp <= timestamp - older_than_ms]
    if not old:
        return []
    # Asked after the partitions: whatever has begun since is known by now.
    known = {(one.producer_id, partition) for one in await described(admin, RUNNING) for partition in one.partitions}
    return [one for one in old if (one.producer_id, one.partition) not in known]


async def open_transactions(session: Session, topics: Sequence[str]) -> list[OpenTransaction]:
    """Every transaction that a partition has open: of these topics, or of all."""
    infos = await session.describe_topics(topics) if topics else None
    return await open_transactions_of(await session.admin(), infos)


async def open_transactions_of(admin: Admin, infos: Mapping[str, TopicInfo] | None = None) -> list[OpenTransaction]:
    from ottla.cli.topics import place_of

    if infos is None:
        infos = await admin.list_topics(include_internal=True)
    led = [place_of(one) for info in infos.values() for one in info.partitions if one.leader_id >= 0]
    found = []
    for partition, producers in (await admin.describe_producers(led)).items():
        for one in producers:
            if one.transaction_start_offset >= 0:
                found.append(
                    OpenTransaction(
                        partition,
                        one.producer_id,
                        one.producer_epoch,
                        max(one.coordinator_epoch, 0),
                        one.transaction_start_offset,
                        one.last_timestamp,
                    )
                )
    return found


# --- ending


async def abort_one(session: Session, options: argparse.Namespace) -> None:
    for one in await open_transactions(session, [options.topic]):
        if (one.partition.partition, one.start_offset) == (options.partition, options.start_offset):
            confirm(
                f"end the transaction of {one.partition} at offset {one.start_offset}: its records are aborted", options
            )
            await abort(await session.admin(), one)
            document = {"partition": str(one.partition), "start_offset": one.start_offset, "aborted": True}
            emit_done(options.output, [document], [f"ended the transaction of {one.partition}"])
            return
    place = f"offset {options.start_offset} of {options.topic}-{options.partition}"
    raise CommandError(f"no transaction begins at {place}: '{COMMAND} hanging --older-than 0' shows where they begin")


async def abort(admin: Admin, one: OpenTransaction) -> None:
    """Write the marker that its coordinator will not write."""
    await admin.abort_transaction(one.partition, one.producer_id, one.producer_epoch, one.coordinator_epoch)


async def end_one(session: Session, options: argparse.Namespace) -> None:
    """As the next producer with this transactional id would do: abort the open transaction first."""
    from ottla.client.errors import ErrorCode, KafkaError

    admin = await session.admin()
    try:
        await admin.describe_transactions([options.transactional_id])
    except KafkaError as error:
        if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        raise CommandError(
            f"no such transactional id: {options.transactional_id!r}; '{COMMAND} list' shows those there are"
        ) from None
    confirm(f"abort what {options.transactional_id} has open, and fence its producer", options)
    await admin.fence_producers([options.transactional_id])
    document = {"transactional_id": options.transactional_id, "fenced": True}
    emit_done(options.output, [document], [f"{options.transactional_id} has nothing open, and its producer is fenced"])
