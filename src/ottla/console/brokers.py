"""Brokers and the quorum: what each holds and leads, settings, reassignments, drain and rebalance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.cli.mover import Mover, cancel_all, lead_first
from ottla.cli.replication_throttles import clear_throttles
from ottla.cli.session import CommandError
from ottla.client.admin import ConfigResource, PartialFailure, QuorumReplica, ResourceType
from ottla.client.core.balance import BrokerPlace, Move, TooFewBrokers, plan_drain, plan_rebalance
from ottla.client.core.partitions import TopicPartition
from ottla.client.errors import KafkaError, UnsupportedByBroker
from ottla.console.call import Call
from ottla.console.faults import Fault, invalid
from ottla.console.search_request import document, integer, text
from ottla.console.topics import changed, described_settings
from ottla.wire import UnsupportedVersion

if TYPE_CHECKING:
    from ottla.client import Admin
    from ottla.client.admin import ClusterDescription, LogDir, Reassignment
    from ottla.console.jobs import Job

AT_ONCE = 16
Replicas = dict[TopicPartition, tuple[int, ...]]


async def brokers(call: Call) -> dict[str, Any]:
    admin = await call.admin()
    described = await cluster_of(admin)
    sample = await call.console.sampler(call.connection).current()
    folders = await _folders(admin)
    infos = [one for info in sample.topics.values() for one in info.partitions]
    rows = []
    for one in described.brokers:
        mine = folders.get(one.id)
        rows.append(
            {
                "id": one.id,
                "host": one.host,
                "port": one.port,
                "rack": one.rack,
                "is_controller": one.id == described.controller_id,
                "is_fenced": one.id in described.fenced_ids,
                "leader_count": sum(at.leader_id == one.id for at in infos),
                "replica_count": sum(one.id in at.replicas for at in infos),
                "size_bytes": None if mine is None else sum(_used(folder) for folder in mine),
                "log_dirs": [_folder(folder) for folder in mine or ()],
            }
        )
    return {"brokers": rows, "quorum": await _quorum(admin), "features": await _features(admin)}


async def cluster_of(admin: Admin) -> ClusterDescription:
    """The cluster with its fenced brokers, if its version can tell."""
    try:
        return await admin.describe_cluster(include_fenced=True)
    except (UnsupportedByBroker, UnsupportedVersion):
        return await admin.describe_cluster()


async def _folders(admin: Admin) -> Mapping[int, Sequence[LogDir]]:
    try:
        return await admin.describe_log_dirs()
    except PartialFailure as failure:
        return failure.results
    except KafkaError as error:
        if error.code.name.endswith("AUTHORIZATION_FAILED"):
            return {}
        raise


def _used(folder: LogDir) -> int:
    return sum(log.size_bytes for log in folder.replicas.values())


def _folder(folder: LogDir) -> dict[str, Any]:
    return {
        "path": folder.path,
        "total_bytes": folder.total_bytes if folder.total_bytes >= 0 else None,
        "usable_bytes": folder.usable_bytes if folder.usable_bytes >= 0 else None,
        "size_bytes": _used(folder),
        "replica_count": len(folder.replicas),
        "error": None if folder.error is None else folder.error.code.text,
    }


async def _quorum(admin: Admin) -> dict[str, Any] | None:
    try:
        quorum = await admin.describe_quorum()
    except KafkaError:
        return None
    leader = next((one for one in quorum.voters if one.replica_id == quorum.leader_id), None)
    end = quorum.high_watermark if leader is None else leader.log_end_offset

    def row(one: QuorumReplica) -> dict[str, Any]:
        return {
            "id": one.replica_id,
            "log_end_offset": one.log_end_offset,
            "lag": max(end - one.log_end_offset, 0),
            "last_fetch_at": one.last_fetch_timestamp if one.last_fetch_timestamp > 0 else None,
            "last_caught_up_at": one.last_caught_up_timestamp if one.last_caught_up_timestamp > 0 else None,
        }

    return {
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "voters": [row(one) for one in quorum.voters],
        "observers": [row(one) for one in quorum.observers],
    }


async def _features(admin: Admin) -> list[dict[str, Any]]:
    try:
        found = await admin.describe_features()
    except KafkaError:
        return []
    return [
        {
            "name": name,
            "finalized": one.finalized,
            "min_supported": one.min_supported,
            "max_supported": one.max_supported,
        }
        for name, one in sorted(found.features.items())
    ]


def _broker_id(call: Call) -> str:
    given = call.names["broker"]
    if not given.isascii() or not given.isdecimal() or len(given) > 9:
        raise invalid("a broker's id is a number")
    return given


async def settings(call: Call) -> dict[str, Any]:
    resource = ConfigResource(ResourceType.BROKER, _broker_id(call))
    return {"settings": await described_settings(await call.admin(), resource)}


async def change_settings(call: Call) -> dict[str, Any]:
    return await changed(call, ConfigResource(ResourceType.BROKER, _broker_id(call)))


# Moves


async def reassignments(call: Call) -> dict[str, Any]:
    admin = await call.admin()
    going_on = await admin.list_partition_reassignments()
    sizes = await _sizes_by_broker(admin) if going_on else {}
    rows = []
    for at, one in sorted(going_on.items()):
        whole = max((size for (part, _), size in sizes.items() if part == at), default=0)
        rows.append(
            {
                "topic": at.topic,
                "partition": at.partition,
                "replicas": list(one.replicas),
                "adding": list(one.adding),
                "removing": list(one.removing),
                "done_bytes": sum(min(sizes.get((at, id), 0), whole) for id in one.adding),
                "total_bytes": whole * len(one.adding),
            }
        )
    return {"reassignments": rows}


async def _sizes_by_broker(admin: Admin) -> dict[tuple[TopicPartition, int], int]:
    return {
        (at, id): log.size_bytes
        for id, folders in (await _folders(admin)).items()
        for folder in folders
        for at, log in folder.replicas.items()
        if not log.is_future
    }


async def cancel_reassignments(call: Call) -> dict[str, Any]:
    admin = await call.admin()
    going_on = await admin.list_partition_reassignments()
    given = call.asked().get("partitions")
    if given is not None:
        if not isinstance(given, list):
            raise invalid("partitions is a list, or null for all")
        wanted = {
            TopicPartition(
                text(document(one).get("topic"), "topic"), integer(one.get("partition"), "partition", 0, 2**31)
            )
            for one in given
        }
        going_on = {at: one for at, one in going_on.items() if at in wanted}
    if call.is_preview():
        rows = [{"topic": at.topic, "partition": at.partition} for at in sorted(going_on)]
        return {"preview": {"partitions": rows}, "confirm": "cancel"}
    call.confirm("cancel")
    if going_on:
        await cancel_all(admin, going_on)
    ids = [one.id for one in (await admin.describe_cluster()).brokers]
    await clear_throttles(admin, ids, {at.topic: None for at in going_on})
    return {"ok": True}


async def drain(call: Call) -> dict[str, Any]:
    id = int(_broker_id(call))
    return await _moved(call, "drain", f"drain broker {id}", str(id), id)


async def rebalance(call: Call) -> dict[str, Any]:
    return await _moved(call, "rebalance", "rebalance", "rebalance", None)


async def _moved(call: Call, kind: str, title: str, word: str, drained: int | None) -> dict[str, Any]:
    rate = call.asked().get("throttle_bytes_per_s")
    if rate is not None:
        rate = integer(rate, "throttle_bytes_per_s", 1, 2**62)
    admin = await call.admin()
    going_on = await admin.list_partition_reassignments()
    replicas = await _replicas(admin, going_on)
    sizes: dict[TopicPartition, int] = {}
    for (at, _), size in (await _sizes_by_broker(admin)).items():
        sizes[at] = max(sizes.get(at, 0), size)
    places = [BrokerPlace(one.id, one.rack) for one in (await admin.describe_cluster()).brokers]
    moves = _planned(replicas, places, sizes, drained)
    if call.is_preview():
        after = replicas | {move.partition: move.after for move in moves}
        preview = {
            "moves": [
                {
                    "topic": move.partition.topic,
                    "partition": move.partition.partition,
                    "old": list(move.before),
                    "new": list(move.after),
                    "size_bytes": sizes.get(move.partition, 0) * len(move.added),
                }
                for move in moves
            ],
            "size_bytes": sum(sizes.get(move.partition, 0) * len(move.added) for move in moves),
            "skew_before": _skew(replicas, sizes, places),
            "skew_after": _skew(after, sizes, places),
        }
        return {"preview": preview, "confirm": word}
    call.confirm(word)

    async def work(job: Job) -> None:
        mover = Mover(admin, moves, sizes, going_on=going_on, at_once=AT_ONCE, rate=rate)
        job.total = len(moves)
        try:
            await mover.run(_JobProgress(job, mover))
        except CommandError as error:
            raise Fault(409, "INVALID", str(error)) from None
        elected = await lead_first(admin, moves)
        job.done = len(mover.done)
        job.message = f"{len(mover.done)} partitions moved, {elected} leaders elected"

    return {"job": call.console.jobs.start(kind, title, "partitions", work, call.user).document()}


class _JobProgress:
    """Receives the progress of a Mover."""

    def __init__(self, job: Job, mover: Mover) -> None:
        self._job = job
        self._mover = mover
        self._copied = 0

    def note(self, count: int = 1) -> None:
        self._copied += count
        self._job.done = len(self._mover.done)
        self._job.message = f"{self._copied} of {self._mover.total_bytes} bytes copied"

    def hide(self) -> None:
        pass


async def _replicas(admin: Admin, going_on: Mapping[TopicPartition, Reassignment]) -> Replicas:
    found: Replicas = {}
    for info in (await admin.list_topics(include_internal=True)).values():
        for one in info.partitions:
            at = TopicPartition(one.topic, one.partition)
            moving = going_on.get(at)
            found[at] = one.replicas
            if moving is not None:
                found[at] = tuple(id for id in moving.replicas if id not in moving.removing)
    return found


def _planned(
    replicas: Replicas, places: list[BrokerPlace], sizes: Mapping[TopicPartition, int], drained: int | None
) -> list[Move]:
    if drained is None:
        return plan_rebalance(replicas, places, sizes)
    if not any(drained in of for of in replicas.values()) and all(one.id != drained for one in places):
        raise Fault(404, "NOT_FOUND", f"there is no broker {drained}")
    try:
        return plan_drain(replicas, places, drained)
    except TooFewBrokers as error:
        raise invalid(
            f"{error.partition} has {error.replica_count} replicas: without broker {drained} there are too few brokers",
            "start another broker first, or give the topic fewer replicas",
        ) from None


def _skew(replicas: Replicas, sizes: Mapping[TopicPartition, int], places: list[BrokerPlace]) -> dict[str, Any]:
    return {
        str(place.id): {
            "replica_count": sum(place.id in of for of in replicas.values()),
            "leader_count": sum(bool(of) and of[0] == place.id for of in replicas.values()),
            "size_bytes": sum(sizes.get(at, 0) for at, of in replicas.items() if place.id in of),
        }
        for place in places
    }


async def elect_leaders(call: Call) -> dict[str, Any]:
    given = call.asked().get("partitions")
    wanted = None
    if given is not None:
        if not isinstance(given, list):
            raise invalid("partitions is a list, or null for all")
        wanted = [
            TopicPartition(
                text(document(one).get("topic"), "topic"), integer(one.get("partition"), "partition", 0, 2**31)
            )
            for one in given
        ]
    outcomes = await (await call.admin()).elect_leaders(wanted)
    return {"ok": True, "elected": sum(error is None for error in outcomes.values())}
