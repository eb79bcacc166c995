"""`ottla cluster`: the brokers, the controller and its quorum, features, and the disks."""

from __future__ import annotations

import argparse
import time
from typing import Any

from ottla.cli import cluster_features, cluster_moves
from ottla.cli.local_cluster import act, add_options
from ottla.cli.output import TABLE, Column, bytes_text, duration_text, emit, write_document
from ottla.cli.session import CLOSE_S, HELP, Session, add_subcommand, group_parser, guarded, run

COMMAND = "ottla cluster"
EXAMPLES = """\
  ottla cluster start --nodes 3               three nodes on this machine, on ports 9092 to 9094
  ottla cluster start --secure                with TLS, logins and ACLs; prints how to connect
  ottla cluster status
  ottla cluster kill 2                        as kill -9 does; start brings it back
  ottla cluster stop
  ottla cluster id
  ottla cluster brokers
  ottla cluster controller
  ottla cluster features
  ottla cluster features upgrade 4.4          after all nodes run it
  ottla cluster log-dirs
  ottla cluster drain 3 --dry-run             what would go where
  ottla cluster rebalance --throttle 50M      after a broker was added
"""


LOCAL = {
    "start": "start a cluster of several nodes on this machine, or those of it that do not run",
    "status": "which nodes of the cluster on this machine run",
    "stop": "stop the cluster on this machine",
    "kill": "end one node at once, to see what happens",
}
MOVING = {
    "drain": "move everything that a broker holds to the others, so that it can be taken away",
    "rebalance": "spread replicas and leaders evenly over brokers and racks, moving as little as that takes",
}


def parser() -> argparse.ArgumentParser:
    made, commands = group_parser(COMMAND, "The cluster itself. Works with Apache Kafka, too.", EXAMPLES)
    add_subcommand(commands, "id", "the cluster's id", "  ottla cluster id\n")
    add_subcommand(
        commands, "brokers", "brokers, where they are, and what they lead", "  ottla cluster brokers -o json\n"
    )
    add_subcommand(
        commands,
        "controller",
        "the quorum of controllers: its leader, and how far the others are behind",
        "  ottla cluster controller\n",
    )
    cluster_features.add_options(
        add_subcommand(
            commands,
            "features",
            "features: what is supported and what is in force; `upgrade` raises them",
            cluster_features.EXAMPLES,
        )
    )
    folders = add_subcommand(
        commands,
        "log-dirs",
        "data folders of the brokers, and how full their disks are",
        "  ottla cluster log-dirs\n  ottla cluster log-dirs --partitions -o json\n",
    )
    for name, what in LOCAL.items():
        add_options(
            add_subcommand(commands, name, what, f"  ottla cluster {name}{' 2' if name == 'kill' else ''}\n"), name
        )
    for name, what in MOVING.items():
        broker = " 3" if name == "drain" else ""
        examples = f"  ottla cluster {name}{broker} --dry-run\n  ottla cluster {name}{broker} --throttle 50M --yes\n"
        cluster_moves.add_options(add_subcommand(commands, name, what, examples), name)
    folders.add_argument("--partitions", action="store_true", help="with every partition in them, largest first")
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments or HELP)
    if options.command in LOCAL:
        return guarded(COMMAND, lambda: act(options.command, options))
    work = {
        "id": cluster_id,
        "brokers": brokers,
        "controller": controller,
        "features": cluster_features.features,
        "log-dirs": log_dirs,
        **dict.fromkeys(MOVING, cluster_moves.move_replicas),
    }[options.command]
    close_s = cluster_moves.TAKE_BACK_S if options.command in MOVING else CLOSE_S
    return run(COMMAND, options, lambda session: work(session, options), close_s=close_s)


async def cluster_id(session: Session, options: argparse.Namespace) -> None:
    found = (await (await session.admin()).describe_cluster()).cluster_id
    if options.output == TABLE:
        print(found)
    else:
        write_document(options.output, {"cluster_id": found})


async def brokers(session: Session, options: argparse.Namespace) -> None:
    admin = await session.admin()
    cluster = await admin.describe_cluster()
    topics = await admin.list_topics(include_internal=True)
    partitions = [one for info in topics.values() for one in info.partitions]
    rows = [
        {
            "id": broker.id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
            "is_controller": broker.id == cluster.controller_id,
            "leads": sum(one.leader_id == broker.id for one in partitions),
            "replicas": sum(broker.id in one.replicas for one in partitions),
            "in_sync": sum(broker.id in one.isr for one in partitions),
        }
        for broker in cluster.brokers
    ]
    columns = [
        Column("id", "ID"),
        Column("host", "HOST"),
        Column("port", "PORT"),
        Column("rack", "RACK"),
        Column("leads", "LEADS"),
        Column("replicas", "REPLICAS"),
        Column("in_sync", "IN SYNC"),
    ]
    emit(options.output, rows, columns)


async def controller(session: Session, options: argparse.Namespace) -> None:
    admin = await session.admin()
    quorum = await admin.describe_quorum()
    now = int(time.time() * 1000)
    end = max((one.log_end_offset for one in quorum.voters), default=quorum.high_watermark)
    rows: list[dict[str, Any]] = []
    for role, replicas in (("voter", quorum.voters), ("observer", quorum.observers)):
        for one in replicas:
            addresses = [f"{place.host}:{place.port}" for place in quorum.endpoints.get(one.replica_id, ())]
            rows.append(
                {
                    "id": one.replica_id,
                    "role": "leader" if one.replica_id == quorum.leader_id else role,
                    "endpoints": addresses,
                    "log_end_offset": one.log_end_offset,
                    "lag": max(end - one.log_end_offset, 0),
                    "caught_up_ms_ago": now - one.last_caught_up_timestamp
                    if one.last_caught_up_timestamp > 0 and one.replica_id != quorum.leader_id
                    else None,
                }
            )
    if options.output != TABLE:
        document = {
            "leader": quorum.leader_id,
            "epoch": quorum.leader_epoch,
            "high_watermark": quorum.high_watermark,
            "replicas": rows,
        }
        write_document(options.output, document)
        return
    print(f"leader {quorum.leader_id}  epoch {quorum.leader_epoch}  high watermark {quorum.high_watermark}")
    columns = [
        Column("id", "ID"),
        Column("role", "ROLE"),
        Column("endpoints", "ENDPOINTS"),
        Column("log_end_offset", "LOG END"),
        Column("lag", "LAG"),
        Column("caught_up_ms_ago", "CAUGHT UP", lambda age: f"{duration_text(max(age, 0))} ago"),
    ]
    emit(TABLE, rows, columns)


async def log_dirs(session: Session, options: argparse.Namespace) -> None:
    admin = await session.admin()
    rows: list[dict[str, Any]] = []
    for broker_id, folders in (await admin.describe_log_dirs()).items():
        for folder in folders:
            logs = sorted(folder.replicas.items(), key=lambda one: (-one[1].size_bytes, one[0]))
            row: dict[str, Any] = {
                "broker": broker_id,
                "path": folder.path,
                "replicas": len(logs),
                "size_bytes": sum(log.size_bytes for _, log in logs),
                "total_bytes": folder.total_bytes if folder.total_bytes >= 0 else None,
                "usable_bytes": folder.usable_bytes if folder.usable_bytes >= 0 else None,
                "error": None if folder.error is None else folder.error.code.name,
            }
            if options.partitions:
                row["partitions"] = [
                    {"partition": str(partition), "size_bytes": log.size_bytes, "offset_lag": log.offset_lag}
                    for partition, log in logs
                ]
            rows.append(row)
    columns = [
        Column("broker", "BROKER"),
        Column("path", "PATH"),
        Column("replicas", "REPLICAS"),
        Column("size_bytes", "LOGS", bytes_text),
        Column("usable_bytes", "DISK FREE", bytes_text),
        Column("total_bytes", "DISK", bytes_text),
    ]
    if any(row["error"] for row in rows):
        columns.append(Column("error", "ERROR"))
    emit(options.output, rows, columns)
    if options.partitions and options.output == TABLE:
        logs_of_all = [
            {"broker": row["broker"], "path": row["path"], **one} for row in rows for one in row["partitions"]
        ]
        print()
        columns = [
            Column("partition", "PARTITION"),
            Column("broker", "BROKER"),
            Column("size_bytes", "SIZE", bytes_text),
            Column("offset_lag", "LAG"),
        ]
        emit(TABLE, logs_of_all, columns)
