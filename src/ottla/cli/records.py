"""`ottla records delete`: removes everything before an offset or a time. `redrive` has its own file."""

from __future__ import annotations

import argparse

from ottla.cli import redrive
from ottla.cli.output import Column, counted, emit, notice
from ottla.cli.positions import HELP as PLACES
from ottla.cli.positions import bounds, position_option, resolve
from ottla.cli.session import HELP, Session, add_subcommand, add_yes_option, can_ask, confirm, group_parser, run

COMMAND = "ottla records"
EXAMPLES = """\
  ottla records delete orders --before end              shows what it would delete: all of it; and asks
  ottla records delete orders --before end --yes        and does it
  ottla records delete orders:0,1 --before '7d ago' --yes
  ottla records delete orders:2 --before 12000 --yes
"""
ALL_EXAMPLES = EXAMPLES + redrive.EXAMPLES


def parser() -> argparse.ArgumentParser:
    made, commands = group_parser(COMMAND, "Records. Works with Apache Kafka, too.", ALL_EXAMPLES)
    delete = add_subcommand(
        commands,
        "delete",
        "delete the oldest records of partitions: shows which, and asks",
        EXAMPLES,
    )
    delete.add_argument("topics", nargs="+", metavar="TOPIC[:N,N]")
    delete.add_argument("--before", type=position_option, required=True, metavar="WHERE", help=PLACES)
    add_yes_option(delete, "--execute")
    redrive.add_arguments(add_subcommand(commands, "redrive", redrive.SUMMARY, redrive.EXAMPLES))
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments or HELP)
    if options.command == "redrive":
        return run(f"{COMMAND} redrive", options, lambda session: redrive.redrive(session, options))
    return run(COMMAND, options, lambda session: delete(session, options))


async def delete(session: Session, options: argparse.Namespace) -> None:
    from ottla.cli.groups import chosen_partitions
    from ottla.client.core.isolation import IsolationLevel

    admin = await session.admin()
    partitions = await chosen_partitions(session, options.topics)
    within = await bounds(admin, partitions, IsolationLevel.READ_UNCOMMITTED)
    before = await resolve(admin, options.before, within)
    first = {partition: start for partition, (start, _) in within.items()}
    wanted = {partition: offset for partition, offset in before.items() if offset > first[partition]}
    left = before
    if options.yes:
        left = {**first, **(await admin.delete_records(wanted) if wanted else {})}
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "first": left[partition],
            "end": within[partition][1],
            "deleted": left[partition] - first[partition],
        }
        for partition in partitions
    ]
    columns = [
        Column("topic", "TOPIC"),
        Column("partition", "PARTITION"),
        Column("first", "FIRST LEFT"),
        Column("end", "END"),
        Column("deleted", "DELETED"),
    ]
    emit(options.output, rows, columns)
    if options.yes or not wanted:
        return
    if can_ask():
        count = sum(offset - first[partition] for partition, offset in wanted.items())
        confirm(f"delete {counted(count, 'record')} for good", options)
        await admin.delete_records(wanted)
    else:
        notice("nothing was deleted: --yes does it")
