"""Measurements of the last 24 hours, and the audit trail."""

from __future__ import annotations

import json
import time
from typing import Any

from ottla.client.core.fetching import RawRecord
from ottla.client.errors import ErrorCode, KafkaError
from ottla.console.call import Call
from ottla.console.column_filter import ColumnFilter
from ottla.console.faults import Fault, invalid
from ottla.console.messages import bounds_of, chosen_partitions
from ottla.console.search import Search
from ottla.console.search_request import Filter, SearchRequest
from ottla.wire.internal_topics import AUDIT_TOPIC

DAY_MS = 24 * 3600 * 1000
MAX_NAMES = 50
MAX_READ = 5_000


async def metrics(call: Call) -> dict[str, Any]:
    sampler = call.console.sampler(call.connection)
    await sampler.current()
    given = call.query.get("names")
    if not given:
        return {"names": sampler.history.names()}
    names = given.split(",")
    if len(names) > MAX_NAMES:
        raise invalid(f"names has at most {MAX_NAMES}")
    now = time.time_ns() // 1_000_000
    first_at = call.number("from_at", now - 3_600_000, now - DAY_MS, now)
    times, series = sampler.history.read(names, first_at, now, call.number("points", 300, 2, 2_000))
    return {"times": times, "series": series}


async def audit(call: Call) -> dict[str, Any]:
    """Events of the cluster's own trail; without one, those of this console."""
    limit = call.number("limit", 200, 1, 1_000)
    wanted = {name: call.query.get(name) or "" for name in ("principal", "operation", "decision")}
    try:
        events = await _trail(call, MAX_READ if any(wanted.values()) else limit)
        source = AUDIT_TOPIC
    except (KafkaError, Fault) as error:
        unknown = isinstance(error, KafkaError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not unknown:
            raise
        events, source = call.console.audit.events(call.connection.cluster), "console"
        if call.user is not None:
            events = [one for one in events if one["principal"] == call.user]
    found = [one for one in events if all(value.lower() in str(one[name]).lower() for name, value in wanted.items())]
    return {"events": found[:limit], "source": source}


async def _trail(call: Call, count: int) -> list[dict[str, Any]]:
    admin = await call.admin()
    partitions = await chosen_partitions(admin, SearchRequest(AUDIT_TOPIC))
    bounds = await bounds_of(admin, partitions)
    ranges = {at.partition: place for at, place in bounds.items()}
    async with call.connection.reader() as consumer:
        search = Search(consumer, AUDIT_TOPIC, ranges, ColumnFilter(Filter(), None, call.console.contents))
        records = [record async for step in search.newest(count) for record in step.records]
    return [event_row(record) for record in records]


def event_row(record: RawRecord) -> dict[str, Any]:
    """An event of OCSF as the page shows it."""
    try:
        event = json.loads(record.value or b"{}")
        actor = event.get("user") if event.get("class_uid") == 3002 else (event.get("actor") or {}).get("user")
        resources = event.get("resources") or [{}]
        is_ok = event.get("status_id") == 1 and event.get("action_id") != 2
        return {
            "at": event.get("time") or record.timestamp,
            "principal": _user(actor or {}),
            "host": (event.get("src_endpoint") or {}).get("ip") or "",
            "operation": (event.get("api") or {}).get("operation") or event.get("auth_protocol") or "",
            "resource": resources[0].get("type") or "",
            "name": resources[0].get("name") or "",
            "decision": "allowed" if is_ok else "denied",
            "detail": event.get("status_detail"),
            "node": (event.get("dst_endpoint") or {}).get("uid"),
        }
    except (ValueError, AttributeError, IndexError, TypeError):
        empty = dict.fromkeys(("principal", "host", "operation", "resource", "name"), "")
        return {"at": record.timestamp, **empty, "decision": "denied", "detail": "not readable", "node": None}


def _user(user: dict[str, Any]) -> str:
    name = str(user.get("name") or "")
    kind = str(user.get("type") or "User")
    return name if ":" in name else f"{kind}:{name}"
