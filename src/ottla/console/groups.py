"""Groups of every kind: lag in records and seconds, members, reset with a preview, delete."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ottla.cli.groups import share_rows, streams_group
from ottla.client.core.isolation import IsolationLevel
from ottla.client.core.partitions import TopicPartition
from ottla.client.errors import ErrorCode, KafkaError
from ottla.console.call import Call
from ottla.console.faults import Fault, invalid, not_found
from ottla.console.messages import bounds_of, placed, read_places
from ottla.console.search_request import document, integer, parse_place, text

if TYPE_CHECKING:
    from ottla.client import Admin
    from ottla.client.admin import GroupDescription

READ_TIMES = 50
"""For this many partitions the oldest unread record is read, to show its age."""


async def groups(call: Call) -> dict[str, Any]:
    sample = await call.console.sampler(call.connection).current(is_fresh=call.flag("refresh"))
    rows = []
    for name, listed in sorted(sample.groups.items()):
        lag = sample.lags.get(name)
        members, coordinator = sample.described.get(name, (None, None))
        rows.append(
            {
                "group": name,
                "type": kind_of(listed.type),
                "state": listed.state,
                "member_count": members,
                "topics": sorted(lag.topics) if lag else [],
                "lag_records": lag.records if lag else None,
                "lag_seconds": lag.seconds if lag else None,
                "coordinator_id": coordinator,
            }
        )
    return {"at": sample.at, "groups": rows}


def kind_of(type_: str) -> str:
    return type_.lower() or "classic"


async def group(call: Call) -> dict[str, Any]:
    name = call.names["group"]
    admin = await call.admin()
    kind, described = await describe(admin, name)
    readers = {
        partition: member.member_id
        for member in (described.members if described else ())
        for partition in member.assignment
    }
    rows = await _partitions(call, kind, name, readers)
    lags = [row["lag_records"] for row in rows if row["lag_records"] is not None]
    times = [row["lag_seconds"] for row in rows if row["committed"] is not None]
    return {
        "group": name,
        "type": kind,
        "state": described.state if described else "Unknown",
        "member_count": len(described.members) if described else None,
        "topics": sorted({row["topic"] for row in rows}),
        "lag_records": sum(lags) if lags else None,
        "lag_seconds": max(times) if times and None not in times else None,
        "coordinator_id": described.coordinator_id if described else None,
        "assignor": described.assignor if described else "",
        "epoch": described.epoch if described else None,
        "members": [
            {
                "member_id": one.member_id,
                "instance_id": one.group_instance_id,
                "client_id": one.client_id,
                "host": one.host.lstrip("/"),
                "rack": one.rack_id,
                "assignment": [{"topic": at.topic, "partition": at.partition} for at in sorted(one.assignment)],
            }
            for one in (described.members if described else ())
        ],
        "partitions": rows,
    }


async def describe(admin: Admin, name: str) -> tuple[str, GroupDescription | None]:
    """A group's kind and description; None as the description of a kind that the client cannot describe."""
    listed = {one.group_id: one for one in await admin.list_groups()}
    if name not in listed:
        raise not_found(f"there is no group {name!r}", "an empty group whose offsets expired is gone")
    kind = kind_of(listed[name].type)
    if kind == "share":
        return kind, (await admin.describe_share_groups([name]))[name]
    if kind in ("classic", "consumer"):
        return kind, (await admin.describe_groups([name]))[name]
    if kind == "streams":
        return kind, await streams_group(admin, name)
    return kind, None


async def _partitions(call: Call, kind: str, name: str, readers: dict[TopicPartition, str]) -> list[dict[str, Any]]:
    admin = await call.admin()
    rows: list[dict[str, Any]] = []
    if kind == "share":
        for one in await share_rows(admin, name):
            rows.append(_row(one["topic"], one["partition"], one["committed"], one["end"], one["lag"], None))
    elif kind in ("classic", "consumer"):
        lags = await admin.group_lag(name, isolation_level=IsolationLevel.READ_COMMITTED)
        for at, lag in sorted(lags.items()):
            rows.append(_row(at.topic, at.partition, lag.committed, lag.end, lag.lag, readers.get(at)))
    else:
        committed = await admin.group_offsets(name)
        bounds = await bounds_of(admin, sorted(committed)) if committed else {}
        for at, (_, end) in bounds.items():
            offset = committed[at].offset
            rows.append(_row(at.topic, at.partition, offset, end, max(end - offset, 0), readers.get(at)))
    await _add_seconds(call, rows)
    return rows


def _row(
    topic: str, partition: int, committed: int | None, end: int, lag: int | None, member: str | None
) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "committed": committed,
        "end_offset": end,
        "lag_records": lag,
        "lag_seconds": 0.0 if lag == 0 else None,
        "member_id": member,
    }


async def _add_seconds(call: Call, rows: list[dict[str, Any]]) -> None:
    """How old the oldest unread record is: read, or by the samples if that takes too long."""
    behind = [row for row in rows if row["lag_records"] and row["committed"] is not None]
    now = time.time_ns() // 1_000_000
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for row in behind[:READ_TIMES]:
        by_topic.setdefault(row["topic"], []).append(row)
    for topic, some in by_topic.items():
        try:
            found = await read_places(call.connection, topic, [(row["partition"], row["committed"]) for row in some])
        except (KafkaError, Fault):
            continue
        for row in some:
            record = found.get((row["partition"], row["committed"]))
            if record is not None:
                row["lag_seconds"] = max(now - record.timestamp, 0) / 1000
    ends = call.console.sampler(call.connection).ends
    for row in behind:
        if row["lag_seconds"] is None:
            row["lag_seconds"] = ends.seconds_behind(TopicPartition(row["topic"], row["partition"]), row["committed"])


# Changes


async def reset(call: Call) -> dict[str, Any]:
    name, asked = call.names["group"], call.asked()
    admin = await call.admin()
    kind = await _kind_if_there(admin, name)
    if kind == "share":
        offsets = await admin.list_share_group_offsets(name)
        committed = {at: one.start_offset for at, one in offsets.items() if one.start_offset >= 0}
    else:
        committed = {at: one.offset for at, one in (await admin.group_offsets(name)).items() if one.offset >= 0}
    partitions = await _chosen(admin, asked, committed)
    wanted = await _targets(admin, asked.get("to"), partitions, committed)
    changes = [
        {
            "topic": at.topic,
            "partition": at.partition,
            "old": committed.get(at),
            "new": wanted[at],
            "count": wanted[at] - committed[at] if at in committed else None,
            "error": None,
        }
        for at in partitions
    ]
    if call.is_preview():
        return {"preview": {"changes": changes}, "confirm": name}
    call.confirm(name)
    await _refuse_members(admin, kind, name)
    if kind == "share":
        await admin.alter_share_group_offsets(name, wanted)
    else:
        await admin.alter_group_offsets(name, wanted)
    await call.console.sampler(call.connection).current(is_fresh=True)
    return {"ok": True, "changes": changes}


async def _kind_if_there(admin: Admin, name: str) -> str:
    return next((kind_of(one.type) for one in await admin.list_groups() if one.group_id == name), "consumer")


async def _refuse_members(admin: Admin, kind: str, name: str) -> None:
    if kind not in ("classic", "consumer"):
        return
    try:
        members = (await admin.describe_groups([name]))[name].members
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return
        raise
    if members:
        clients = ", ".join(sorted({f"{one.client_id} on {one.host.lstrip('/')}" for one in members})[:5])
        raise Fault(409, "NON_EMPTY_GROUP", f"{name} has members: {clients}", "stop them first")


async def _chosen(admin: Admin, asked: dict[str, Any], committed: dict[TopicPartition, int]) -> list[TopicPartition]:
    topic, numbers = asked.get("topic"), asked.get("partitions")
    if topic is None:
        if not committed:
            raise invalid("the group has committed nothing: name a topic")
        return sorted(committed)
    count = len((await admin.describe_topics([text(topic, "topic")]))[topic].partitions)
    if numbers is None:
        return [TopicPartition(topic, number) for number in range(count)]
    if not isinstance(numbers, list) or not numbers:
        raise invalid("partitions is a list of numbers, or null for all")
    return [TopicPartition(topic, integer(number, "partitions", 0, count - 1)) for number in numbers]


async def _targets(
    admin: Admin, to: Any, partitions: list[TopicPartition], committed: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    bounds = await bounds_of(admin, partitions)
    match document(to).get("kind"):
        case "shift":
            by = integer(to.get("by"), "by", -(2**62), 2**62)
            unknown = [str(at) for at in partitions if at not in committed]
            if unknown:
                raise invalid(f"nothing is committed for {unknown[0]}: it cannot be shifted")
            return {at: min(max(committed[at] + by, first), end) for at, (first, end) in bounds.items()}
        case "ago":
            moment = time.time_ns() // 1_000_000 - integer(to.get("ms"), "ms", 0, 2**53)
            return await placed(admin, parse_place({"kind": "time", "timestamp": max(moment, 0)}), bounds)
    return await placed(admin, parse_place(to), bounds)


async def delete(call: Call) -> dict[str, Any]:
    name = call.names["group"]
    admin = await call.admin()
    kind, described = await describe(admin, name)
    if call.is_preview():
        sample = call.console.sampler(call.connection).sample
        lag = sample.lags.get(name)
        preview = {
            "member_count": len(described.members) if described else None,
            "topics": sorted(lag.topics) if lag else [],
            "lag_records": lag.records if lag else None,
        }
        return {"preview": preview, "confirm": name}
    call.confirm(name)
    if kind == "share":
        await admin.delete_share_groups([name])
    else:
        await admin.delete_groups([name])
    await call.console.sampler(call.connection).current(is_fresh=True)
    return {"ok": True}


async def delete_offsets(call: Call) -> dict[str, Any]:
    name, topic = call.names["group"], text(call.asked().get("topic"), "topic")
    admin = await call.admin()
    kind = await _kind_if_there(admin, name)
    if kind == "share":
        known = [at for at in await admin.list_share_group_offsets(name) if at.topic == topic]
    else:
        known = [at for at in await admin.group_offsets(name) if at.topic == topic]
    if call.is_preview():
        rows = [{"topic": at.topic, "partition": at.partition} for at in sorted(known)]
        return {"preview": {"partitions": rows}, "confirm": name}
    call.confirm(name)
    if kind == "share":
        await admin.delete_share_group_offsets(name, [topic])
    else:
        await admin.delete_group_offsets(name, known)
    return {"ok": True}


async def remove_members(call: Call) -> dict[str, Any]:
    name, ids = call.names["group"], call.asked().get("instance_ids")
    if not isinstance(ids, list) or not ids or not all(isinstance(one, str) for one in ids):
        raise invalid("instance_ids names the members to remove")
    if call.is_preview():
        return {"preview": {"instance_ids": ids}, "confirm": name}
    call.confirm(name)
    await (await call.admin()).remove_members(name, ids, reason="removed in the console")
    return {"ok": True}
