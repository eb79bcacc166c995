"""`ottla topics`: what topics there are, what they look like, and how they are made, changed and deleted."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.cli.output import TABLE, Column, bytes_text, counted, emit, emit_documents, emit_done, notice, wrapped
from ottla.cli.parser import near
from ottla.cli.session import (
    HELP,
    CommandError,
    Session,
    add_subcommand,
    add_yes_option,
    confirm,
    group_parser,
    no_such,
    run,
    setting,
)

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.core.partitions import TopicPartition
    from ottla.client.metadata import PartitionInfo, TopicInfo

COMMAND = "ottla topics"
EXAMPLES = """\
  ottla topics list
  ottla topics create orders --partitions 6 --config retention.ms=7d
  ottla topics describe orders
  ottla topics alter orders --partitions 12
  ottla topics offsets orders
  ottla topics clone orders orders-test
  ottla topics delete orders
"""
SETTINGS = "a setting, such as retention.ms=7d or segment.bytes=64MiB; may be repeated"


def parser() -> argparse.ArgumentParser:
    made, commands = group_parser(COMMAND, "Topics. Works with Apache Kafka, too.", EXAMPLES)
    listing = add_subcommand(
        commands,
        "list",
        "names, partitions and replicas of topics",
        "  ottla topics list\n  ottla topics list 'orders*' --sizes\n  ottla topics list -o json\n",
    )
    listing.add_argument("patterns", nargs="*", metavar="PATTERN", help="only names like these (* and ? as in a shell)")
    listing.add_argument("--internal", action="store_true", help="Kafka's own topics, too")
    listing.add_argument("--sizes", action="store_true", help="and how much they take on disk, with all replicas")
    describe = add_subcommand(
        commands,
        "describe",
        "partitions, leaders, replicas and changed settings of topics",
        "  ottla topics describe orders\n  ottla topics describe orders -o yaml\n",
    )
    describe.add_argument("topics", nargs="+", metavar="TOPIC")
    create = add_subcommand(
        commands,
        "create",
        "make new topics",
        "  ottla topics create orders\n  ottla topics create orders -p 6 -r 3 --config cleanup.policy=compact\n",
    )
    create.add_argument("topics", nargs="+", metavar="NEW_TOPIC")
    create.add_argument("-p", "--partitions", type=int, default=-1, metavar="N", help="(the broker's num.partitions)")
    create.add_argument("-r", "--replication-factor", type=int, default=-1, metavar="N", help="(the broker's default)")
    create.add_argument(
        "-c", "--config", type=setting, action="append", default=[], metavar="NAME=VALUE", help=SETTINGS
    )
    create.add_argument("--if-not-exists", action="store_true", help="an existing topic is no error")
    create.add_argument("--validate-only", action="store_true", help="only say whether it would work")
    alter = add_subcommand(
        commands,
        "alter",
        "add partitions to a topic, or change its settings",
        "  ottla topics alter orders --partitions 12\n"
        "  ottla topics alter orders --config retention.ms=1h --config segment.bytes=64MiB --unset cleanup.policy\n",
    )
    alter.add_argument("topic", metavar="TOPIC")
    alter.add_argument("-p", "--partitions", type=int, metavar="N", help="how many there will be in all")
    alter.add_argument("-c", "--config", type=setting, action="append", default=[], metavar="NAME=VALUE", help=SETTINGS)
    alter.add_argument("--unset", action="append", default=[], metavar="NAME", help="take the broker's value again")
    delete = add_subcommand(commands, "delete", "delete topics and all their records", "  ottla topics delete orders\n")
    delete.add_argument("topics", nargs="+", metavar="TOPIC")
    add_yes_option(delete)
    delete.add_argument("--if-exists", action="store_true", help="a missing topic is no error")
    clone = add_subcommand(
        commands,
        "clone",
        "make a topic like another: its partitions, replicas and changed settings, not its records",
        "  ottla topics clone orders orders-test\n"
        "  ottla topics clone orders orders-wide --partitions 24 --config retention.ms=1d\n"
        "  ottla consume orders -e -o json | ottla produce orders-test --json      and then its records\n",
    )
    clone.add_argument("source", metavar="TOPIC")
    clone.add_argument("target", metavar="NEW_TOPIC")
    clone.add_argument("-p", "--partitions", type=int, metavar="N", help="(as many)")
    clone.add_argument("-r", "--replication-factor", type=int, metavar="N", help="(as many)")
    clone.add_argument("-c", "--config", type=setting, action="append", default=[], metavar="NAME=VALUE", help=SETTINGS)
    offsets = add_subcommand(
        commands,
        "offsets",
        "first and last offsets, and how many records are between them",
        "  ottla topics offsets orders\n  ottla topics offsets orders --at '1h ago'\n",
    )
    offsets.add_argument("topics", nargs="+", metavar="TOPIC")
    offsets.add_argument("--at", metavar="TIME", help="and the first offset at that time or later")
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments or HELP)
    work = {
        "list": list_topics,
        "describe": describe,
        "create": create,
        "alter": alter,
        "delete": delete,
        "offsets": offsets,
        "clone": clone,
    }[options.command]
    return run(COMMAND, options, lambda session: work(session, options))


# --- list, describe


async def list_topics(session: Session, options: argparse.Namespace) -> None:
    admin = await session.admin()
    topics = await admin.list_topics(include_internal=options.internal or bool(options.patterns))
    if options.patterns:
        topics = matching(topics, options.patterns)
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "partitions": len(info.partitions),
            "replicas": max((len(one.replicas) for one in info.partitions), default=0),
            "under_replicated": sum(is_under_replicated(one) for one in info.partitions),
            "offline": sum(one.leader_id < 0 for one in info.partitions),
            "internal": info.is_internal,
        }
        for name, info in topics.items()
    ]
    columns = [Column("name", "NAME"), Column("partitions", "PARTITIONS"), Column("replicas", "REPLICAS")]
    if any(row["under_replicated"] or row["offline"] for row in rows):
        columns += [Column("under_replicated", "UNDER-REPLICATED"), Column("offline", "OFFLINE")]
    if options.sizes:
        sizes = await topic_sizes(admin)
        for row in rows:
            row["size_bytes"] = sizes.get(row["name"], 0)
        columns.append(Column("size_bytes", "SIZE", bytes_text))
    nothing = "" if options.patterns else "no topics; make one: ottla topics create NAME"
    emit(options.output, rows, columns, nothing=nothing)


def matching(topics: dict[str, TopicInfo], patterns: Sequence[str]) -> dict[str, TopicInfo]:
    """The topics whose names match one of the patterns. A pattern without a match is named on stderr."""
    from fnmatch import fnmatchcase

    found = {pattern: {name for name in topics if fnmatchcase(name, pattern)} for pattern in patterns}
    own_count = sum(not info.is_internal for info in topics.values())
    for pattern, names in found.items():
        if not names:
            there_are = f"; there {'is' if own_count == 1 else 'are'} {counted(own_count, 'topic')}"
            is_name = not any(mark in pattern for mark in "*?[")
            notice(f"no topic matches {pattern!r}{(is_name and near(pattern, topics)) or there_are}")
    return {name: info for name, info in topics.items() if any(name in names for names in found.values())}


def place_of(partition: PartitionInfo) -> TopicPartition:
    from ottla.client.core.partitions import TopicPartition

    return TopicPartition(partition.topic, partition.partition)


def is_under_replicated(partition: PartitionInfo) -> bool:
    return len(partition.isr) < len(partition.replicas)


async def topic_sizes(admin: Admin) -> dict[str, int]:
    """The size of the logs of each topic, on all brokers."""
    sizes: dict[str, int] = {}
    for folders in (await admin.describe_log_dirs()).values():
        for folder in folders:
            for partition, log in folder.replicas.items():
                sizes[partition.topic] = sizes.get(partition.topic, 0) + log.size_bytes
    return sizes


async def describe(session: Session, options: argparse.Namespace) -> None:
    topics = await session.describe_topics(options.topics)
    admin = await session.admin()
    emit_documents(options.output, [await described(admin, name, info) for name, info in topics.items()], show)


def show(document: dict[str, Any]) -> None:
    print(
        wrapped(f"{document['name']}  id {document['id']}  {counted(len(document['partitions']), 'partition')}", "  ")
    )
    changed = ", ".join(f"{name}={value}" for name, value in document["configs"].items())
    print(wrapped(f"settings:  {changed or 'defaults'}", " " * 11))
    columns = [
        Column("partition", "PARTITION"),
        Column("leader", "LEADER"),
        Column("epoch", "EPOCH"),
        Column("replicas", "REPLICAS"),
        Column("isr", "ISR"),
        Column("first", "FIRST"),
        Column("end", "END"),
        Column("size_bytes", "SIZE", bytes_text),
    ]
    emit(TABLE, document["partitions"], columns)


async def described(admin: Admin, name: str, info: TopicInfo) -> dict[str, Any]:
    from base64 import urlsafe_b64encode

    from ottla.client.admin import ConfigSource

    configs = await admin.topic_config(name)
    rows = await offset_rows(admin, name, info)
    sizes: dict[int, int] = {}
    for folders in (await admin.describe_log_dirs(partitions=[place_of(one) for one in info.partitions])).values():
        for folder in folders:
            for partition, log in folder.replicas.items():
                sizes[partition.partition] = sizes.get(partition.partition, 0) + log.size_bytes
    return {
        "name": name,
        "id": urlsafe_b64encode(info.topic_id).decode().rstrip("="),
        "internal": info.is_internal,
        "configs": {
            entry.name: entry.value for entry in configs.values() if entry.source is ConfigSource.DYNAMIC_TOPIC
        },
        "partitions": [
            {
                "partition": one.partition,
                "leader": one.leader_id if one.leader_id >= 0 else None,
                "epoch": one.leader_epoch,
                "replicas": list(one.replicas),
                "isr": list(one.isr),
                "offline_replicas": list(one.offline_replicas),
                "first": row["first"],
                "end": row["end"],
                "size_bytes": sizes.get(one.partition, 0),
            }
            for one, row in zip(info.partitions, rows, strict=True)
        ],
    }


# --- offsets


async def offsets(session: Session, options: argparse.Namespace) -> None:
    topics = await session.describe_topics(options.topics)
    admin = await session.admin()
    at_ms = None
    columns = [
        Column("topic", "TOPIC"),
        Column("partition", "PARTITION"),
        Column("first", "FIRST"),
        Column("end", "END"),
        Column("records", "RECORDS"),
    ]
    if options.at is not None:
        from ottla.cli.positions import parse_time_ms

        try:
            at_ms = parse_time_ms(options.at)
        except ValueError as error:
            raise CommandError(f"--at: {error}", 2) from None
        columns.append(Column("at", "AT THAT TIME"))
    rows = [row for name, info in topics.items() for row in await offset_rows(admin, name, info, at_ms)]
    emit(options.output, rows, columns)


async def offset_rows(admin: Admin, name: str, info: TopicInfo, at_ms: int | None = None) -> list[dict[str, Any]]:
    """The bounds of every partition; empty where it has no leader to ask."""
    from ottla.client.admin import EARLIEST, LATEST

    led = [place_of(one) for one in info.partitions if one.leader_id >= 0]
    first = await admin.list_offsets(dict.fromkeys(led, EARLIEST))
    end = await admin.list_offsets(dict.fromkeys(led, LATEST))
    at = {} if at_ms is None else await admin.list_offsets(dict.fromkeys(led, at_ms))
    rows = []
    for one in info.partitions:
        place = place_of(one)
        known = place in first
        row: dict[str, Any] = {
            "topic": name,
            "partition": one.partition,
            "first": first[place].offset if known else None,
            "end": end[place].offset if known else None,
            "records": end[place].offset - first[place].offset if known else None,
        }
        if at_ms is not None:
            found = at[place].offset if known else None
            row["at"] = row["end"] if found == -1 else found
        rows.append(row)
    return rows


# --- create, alter, delete


async def create(session: Session, options: argparse.Namespace) -> None:
    from ottla.client.admin import NewTopic, PartialFailure
    from ottla.client.errors import ErrorCode, KafkaError

    admin = await session.admin()
    wanted = [
        NewTopic(name, options.partitions, options.replication_factor, dict(options.config)) for name in options.topics
    ]
    refused: dict[str, KafkaError] = {}
    try:
        made = await admin.create_topics(wanted, validate_only=options.validate_only)
    except PartialFailure as error:
        made, refused = error.results, error.errors
    except KafkaError as error:
        made, refused = {}, {options.topics[0]: error}
    done = "could be created" if options.validate_only else "created"
    texts = []
    for name, topic in made.items():
        shape = (
            f" with {counted(topic.partition_count, 'partition')}, {counted(topic.replication_factor, 'replica')}"
            if topic.partition_count > 0
            else ""
        )
        texts.append(f"{name} {done}{shape}")
    rows = [
        {"topic": name, "created": not options.validate_only, "partitions": topic.partition_count,
         "replicas": topic.replication_factor}
        for name, topic in made.items()
    ]  # fmt: skip
    for name, reason in list(refused.items()):
        if options.if_not_exists and reason.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            texts.append(f"{name} is there already")
            rows.append({"topic": name, "created": False})
            del refused[name]
        elif reason.code is ErrorCode.INVALID_CONFIG:
            refuse_unknown(dict(options.config))
    if made or not refused:
        emit_done(options.output, rows, texts)
    if len(refused) == 1:
        raise next(iter(refused.values()))
    if refused:
        raise PartialFailure(made, refused)


def refuse_unknown(settings: dict[str, str]) -> None:
    """Says the nearest name for a setting that no topic has."""
    from ottla.config import TOPIC_KEYS

    for name in settings:
        if name not in TOPIC_KEYS:
            raise no_such("setting", name, TOPIC_KEYS, "ottla configs describe topic TOPIC --all")


async def alter(session: Session, options: argparse.Namespace) -> None:
    if options.partitions is None and not options.config and not options.unset:
        raise CommandError("nothing to change: --partitions N, --config NAME=VALUE or --unset NAME", 2)
    info = await session.describe_topic(options.topic)
    admin = await session.admin()
    done: list[str] = []
    if options.config or options.unset:
        await admin.set_topic_config(options.topic, {**dict(options.config), **dict.fromkeys(options.unset)})
        done += [f"{options.topic}: {name}={value}" for name, value in options.config]
        done += [f"{options.topic}: {name} has the broker's value again" for name in options.unset]
    if options.partitions is not None:
        if options.partitions < len(info.partitions):
            raise CommandError(
                f"{options.topic} has {len(info.partitions)} partitions, and a topic never gets fewer; "
                "make a new topic and copy: ottla consume OLD -e -o json | ottla produce NEW --json --repartition"
            )
        await admin.create_partitions({options.topic: options.partitions})
        done.append(
            f"{options.topic}: {counted(options.partitions, 'partition')}, it had {len(info.partitions)}; "
            "keys go to other partitions from now on"
        )
    document = {
        "topic": options.topic,
        "partitions": options.partitions or len(info.partitions),
        "set": dict(options.config),
        "unset": options.unset,
    }
    emit_done(options.output, [document], done)


async def delete(session: Session, options: argparse.Namespace) -> None:
    admin = await session.admin()
    names: Sequence[str] = list(dict.fromkeys(options.topics))
    if options.if_exists:
        known = await admin.list_topics(include_internal=True)
        names = [name for name in names if name in known]
    else:
        await session.describe_topics(names)
    if names:
        which = names[0] if len(names) == 1 else f"{len(names)} topics ({', '.join(names)})"
        confirm(f"delete {which} with all records", options)
        await admin.delete_topics(names)
    emit_done(
        options.output, [{"topic": name, "deleted": True} for name in names], [f"{name} deleted" for name in names]
    )


# --- clone


PLACED_SETTINGS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
"""Settings that name replicas of this very topic."""


async def clone(session: Session, options: argparse.Namespace) -> None:
    """Create a topic with the shape and the changed settings of another."""
    from ottla.client.admin import ConfigSource

    info = await session.describe_topic(options.source)
    configs = await (await session.admin()).topic_config(options.source)
    changed = {
        entry.name: entry.value or ""
        for entry in configs.values()
        if entry.source is ConfigSource.DYNAMIC_TOPIC and entry.name not in PLACED_SETTINGS
    }
    options.topics = [options.target]
    options.partitions = options.partitions or len(info.partitions)
    options.replication_factor = options.replication_factor or max(len(one.replicas) for one in info.partitions)
    options.config = list({**changed, **dict(options.config)}.items())
    options.if_not_exists = options.validate_only = False
    await create(session, options)
