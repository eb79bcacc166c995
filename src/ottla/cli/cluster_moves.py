"""`ottla cluster drain` and `ottla cluster rebalance`: a plan to look at, and its execution."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.cli.output import TABLE, Column, Progress, bytes_text, counted, emit, notice, write_document
from ottla.cli.session import MISUSED, CommandError, Session, add_yes_option, confirm

if TYPE_CHECKING:
    from ottla.client.admin import Admin, ClusterDescription, Reassignment
    from ottla.client.core.balance import Move
    from ottla.client.metadata import PartitionInfo, TopicPartition

AT_ONCE = 16
TAKE_BACK_S = 60.0
"""How long Ctrl-C waits until moves that are under way are taken back and throttles removed; a second one does not."""
PLAN_ROWS = 40
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def add_options(parser: argparse.ArgumentParser, command: str) -> None:
    if command == "drain":
        parser.add_argument("drained", metavar="BROKER", type=int, help="the id of the broker that is to hold nothing")
    parser.add_argument("--dry-run", action="store_true", help="show the plan, and move nothing")
    add_yes_option(parser)
    parser.add_argument(
        "--throttle", metavar="RATE", type=rate, help="copy at most so many bytes per second and broker: 50M, 1G"
    )
    parser.add_argument(
        "--at-once", metavar="N", type=int, default=AT_ONCE, help=f"partitions under way at a time ({AT_ONCE})"
    )
    parser.add_argument("--cancel", action="store_true", help="stop what is being moved, and remove its throttles")


def rate(text: str) -> int:
    """Bytes per second, with K, M or G for the powers of 1024."""
    number = text.upper().removesuffix("/S").removesuffix("B").removesuffix("I")
    unit = number[-1:] if number[-1:] in "KMG" else ""
    try:
        found = int(float(number.removesuffix(unit)) * UNITS[unit])
    except (ValueError, OverflowError):
        found = 0
    if found < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no rate: bytes per second, such as 10485760, 500K, 50M or 1G")
    return found


async def move_replicas(session: Session, options: argparse.Namespace) -> None:
    if options.at_once < 1:
        raise CommandError(f"--at-once {options.at_once}: at least one partition has to be under way", MISUSED)
    admin = await session.admin()
    going_on = await admin.list_partition_reassignments()
    if options.cancel:
        await _cancel(admin, going_on)
        return
    cluster = await admin.describe_cluster()
    partitions = {
        _partition(one): one
        for info in (await admin.list_topics(include_internal=True)).values()
        for one in info.partitions
    }
    replicas = {
        partition: _target(going_on[partition]) if partition in going_on else one.replicas
        for partition, one in partitions.items()
    }
    sizes = await _sizes(admin, cluster)
    moves = _plan(options, cluster, partitions, replicas, sizes)
    _show(options, moves, replicas, sizes, going_on)
    if options.dry_run or (not moves and not going_on):
        return
    _confirm(options, moves, sizes, going_on)
    await _carry_out(admin, options, moves, sizes, going_on)
    if options.command == "drain":
        await _say_what_is_left(admin, options.drained)


# --- the plan


def _plan(
    options: argparse.Namespace,
    cluster: ClusterDescription,
    partitions: Mapping[TopicPartition, PartitionInfo],
    replicas: Mapping[TopicPartition, Sequence[int]],
    sizes: Mapping[TopicPartition, int],
) -> list[Move]:
    from ottla.client.core.balance import BrokerPlace, TooFewBrokers, plan_drain, plan_rebalance

    brokers = [BrokerPlace(broker.id, broker.rack) for broker in cluster.brokers]
    if options.command == "rebalance":
        return plan_rebalance(replicas, brokers, sizes)
    drained = options.drained
    ids = [broker.id for broker in brokers]
    if drained not in ids and not any(drained in of for of in replicas.values()):
        known = ", ".join(map(str, ids))
        raise CommandError(f"there is no broker {drained}; those there are: {known} ('ottla cluster brokers')")
    if drained not in ids:
        for partition, one in sorted(partitions.items()):
            if drained in replicas[partition] and not any(id in ids for id in one.isr):
                raise CommandError(
                    f"broker {drained} is down, and no other broker has all of {partition}: its records would be lost\n"
                    f"  start broker {drained} again; or give {partition} up with 'bin/kafka-leader-election.sh "
                    "--election-type UNCLEAN'"
                )
    try:
        return plan_drain(replicas, brokers, drained)
    except TooFewBrokers as error:
        left = [id for id in ids if id != drained]
        others = ", ".join(map(str, left)) or "none"
        raise CommandError(
            f"{error.partition} has {counted(error.replica_count, 'replica')}, and without broker {drained} there "
            f"{'is' if len(left) == 1 else 'are'} {counted(len(left), 'broker')} ({others})\n"
            "  start another broker first, or give the topic fewer replicas with 'bin/kafka-reassign-partitions.sh'"
        ) from None


def _target(reassignment: Reassignment) -> tuple[int, ...]:
    """The replicas that a partition will have."""
    return tuple(one for one in reassignment.replicas if one not in reassignment.removing)


def _partition(info: PartitionInfo) -> TopicPartition:
    from ottla.client.metadata import TopicPartition

    return TopicPartition(info.topic, info.partition)


async def _sizes(admin: Admin, cluster: ClusterDescription) -> dict[TopicPartition, int]:
    """How much there is to copy of each partition: as much as its largest replica has."""
    from ottla.client.admin import PartialFailure

    sizes: dict[TopicPartition, int] = {}
    try:
        described = await admin.describe_log_dirs([broker.id for broker in cluster.brokers])
    except PartialFailure as failure:
        described = failure.results  # a broker that has just died: the other replicas have the same
    for folders in described.values():
        for folder in folders:
            for partition, log in folder.replicas.items():
                if not log.is_future:
                    sizes[partition] = max(sizes.get(partition, 0), log.size_bytes)
    return sizes


def _bytes_to_copy(moves: Sequence[Move], sizes: Mapping[TopicPartition, int]) -> int:
    return sum(sizes.get(move.partition, 0) * len(move.added) for move in moves)


def _show(
    options: argparse.Namespace,
    moves: Sequence[Move],
    replicas: Mapping[TopicPartition, Sequence[int]],
    sizes: Mapping[TopicPartition, int],
    going_on: Mapping[TopicPartition, Reassignment],
) -> None:
    rows = [
        {
            "partition": str(move.partition),
            "size_bytes": sizes.get(move.partition, 0) if move.added else 0,
            "before": list(move.before),
            "after": list(move.after),
        }
        for move in moves
    ]
    brokers = _by_broker(moves, replicas)
    if options.output != TABLE:
        document = {
            "bytes_to_copy": _bytes_to_copy(moves, sizes),
            "going_on": sorted(map(str, going_on)),
            "moves": rows,
            "brokers": brokers,
        }
        write_document(options.output, document)
        return
    if going_on:
        are = "is" if len(going_on) == 1 else "are"
        print(
            f"{counted(len(going_on), 'partition')} {are} being moved already; the plan goes on from where they will be"
        )
    if not moves:
        done = f"broker {options.drained} holds nothing" if options.command == "drain" else "everything is balanced"
        print(f"{done}: no move is needed")
        return
    ids = Column("before", "FROM", _ids), Column("after", "TO (first leads)", _ids)
    emit(TABLE, rows[:PLAN_ROWS], [Column("partition", "PARTITION"), Column("size_bytes", "COPY", bytes_text), *ids])
    if len(rows) > PLAN_ROWS:
        print(f"... and {len(rows) - PLAN_ROWS} more (-o json --dry-run shows all)")
    print()
    columns = [
        Column("id", "BROKER"),
        Column("replicas_before", "REPLICAS NOW"),
        Column("replicas_after", "THEN"),
        Column("leads_before", "FIRST NOW"),
        Column("leads_after", "THEN"),
    ]
    emit(TABLE, brokers, columns)
    print(f"\n{_summary(moves, sizes)}")


def _by_broker(moves: Sequence[Move], replicas: Mapping[TopicPartition, Sequence[int]]) -> list[dict[str, Any]]:
    after = dict(replicas) | {move.partition: move.after for move in moves}
    rows = {}
    for id in sorted({id for of in (*replicas.values(), *after.values()) for id in of}):
        rows[id] = {
            "id": id,
            "replicas_before": sum(id in of for of in replicas.values()),
            "replicas_after": sum(id in of for of in after.values()),
            "leads_before": sum(of[0] == id for of in replicas.values()),
            "leads_after": sum(of[0] == id for of in after.values()),
        }
    return list(rows.values())


def _summary(moves: Sequence[Move], sizes: Mapping[TopicPartition, int]) -> str:
    copied = sum(len(move.added) for move in moves)
    reordered = sum(not move.added for move in moves)
    parts = [f"{counted(copied, 'replica')} to copy, {bytes_text(_bytes_to_copy(moves, sizes))}"]
    if reordered:
        parts.append(f"{counted(reordered, 'partition')} to be led by another of their replicas")
    return "; ".join(parts)


def _ids(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


# --- its execution


def _confirm(
    options: argparse.Namespace,
    moves: Sequence[Move],
    sizes: Mapping[TopicPartition, int],
    going_on: Mapping[TopicPartition, Reassignment],
) -> None:
    what = (
        f"carry it out: {_summary(moves, sizes)}"
        if moves
        else f"watch {counted(len(going_on), 'partition')} to the end"
    )
    confirm(what, options)


async def _carry_out(
    admin: Admin,
    options: argparse.Namespace,
    moves: Sequence[Move],
    sizes: Mapping[TopicPartition, int],
    going_on: Mapping[TopicPartition, Reassignment],
) -> None:
    from ottla.cli.mover import Mover, lead_first

    mover = Mover(admin, moves, sizes, going_on=going_on, at_once=options.at_once, rate=options.throttle)
    with Progress("copying", mover.total_bytes, "bytes") as progress:
        await mover.run(progress)
    topics = await admin.list_topics(include_internal=True)
    here = {_partition(one): one.replicas for info in topics.values() for one in info.partitions}
    elsewhere = [move.partition for move in moves if here.get(move.partition, move.after) != move.after]
    elected = await lead_first(admin, [move for move in moves if here.get(move.partition) == move.after])
    notice(f"{counted(len(mover.done), 'partition')} moved, {counted(elected, 'leader')} elected")
    if elsewhere:
        raise CommandError(
            f"{counted(len(elsewhere), 'partition')} not where the plan wants it (the first: {elsewhere[0]}): another "
            f"command moved it or stopped the move; 'ottla cluster {options.command}' makes a new plan"
        )


async def _say_what_is_left(admin: Admin, drained: int) -> None:
    quorum = await admin.describe_quorum()
    notice(f"broker {drained} holds no replica any more and can be stopped")
    if any(voter.replica_id == drained for voter in quorum.voters):
        notice(
            f"node {drained} also votes as a controller: of {len(quorum.voters)} voters a majority has to stay "
            "('bin/kafka-metadata-quorum.sh remove-controller' takes its vote)"
        )


async def _cancel(admin: Admin, going_on: Mapping[TopicPartition, Reassignment]) -> None:
    from ottla.cli.mover import cancel_all
    from ottla.cli.replication_throttles import clear_throttles

    if going_on:
        await cancel_all(admin, going_on)
    brokers = [broker.id for broker in (await admin.describe_cluster()).brokers]
    topics = {partition.topic: None for partition in going_on}
    await clear_throttles(admin, brokers, topics)
    notice(f"{counted(len(going_on), 'move')} stopped: those partitions go back to where they were; throttles removed")
