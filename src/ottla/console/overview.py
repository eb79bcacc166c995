"""What is wrong with a cluster and what to do: `ottla doctor`'s judgement on what the console has seen."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.cli import diagnosis, doctor
from ottla.cli.diagnosis import Finding, GroupSeen
from ottla.cli.output import counted
from ottla.cli.transactions import find_hanging_of
from ottla.client.errors import KafkaError
from ottla.console.brokers import cluster_of
from ottla.console.call import Call
from ottla.console.faults import of_kafka

if TYPE_CHECKING:
    from ottla.client import Admin
    from ottla.client.metadata import Broker
    from ottla.console.connection import Connection
    from ottla.console.sampler import Sample

KEPT_S = 30.0
SKEWED = 1.5
MIN_SKEWED_REPLICAS = 12
Look = Callable[[], Awaitable[tuple[list[Finding], str]]]


@dataclass(slots=True)
class Checked:
    """The last checks of a connection."""

    at: float = float("-inf")
    checks: list[dict[str, Any]] | None = None
    groups: dict[str, GroupSeen] | None = None
    groups_at: float = 0.0


async def overview(call: Call) -> dict[str, Any]:
    sampler = call.console.sampler(call.connection)
    is_fresh = call.flag("refresh")
    sample = await sampler.current(is_fresh=is_fresh)
    admin = await call.admin()
    described = await cluster_of(admin)
    checked = call.console.checked(call.connection)
    now = call.console.clock()
    if is_fresh or checked.checks is None or now - checked.at > KEPT_S:
        live = [one for one in described.brokers if one.id not in described.fenced_ids]
        checked.checks = await checks(call.connection, admin, sample, live, checked)
        checked.at = now
    infos = [one for info in sample.topics.values() for one in info.partitions]
    names = [name for name, info in sample.topics.items() if not info.is_internal and not name.startswith("__")]
    measured = sampler.last_measured
    return {
        "at": sample.at,
        "cluster_id": described.cluster_id,
        "controller_id": described.controller_id if described.controller_id >= 0 else None,
        "broker_count": len(described.brokers),
        "fenced_count": len(described.fenced_ids),
        "topic_count": len(names),
        "partition_count": len(infos),
        "group_count": len(sample.groups),
        "size_bytes": sum(sample.sizes.values()) if sample.sizes else None,
        "in_per_s": measured.get("cluster.in_per_s"),
        "in_bytes_per_s": measured.get("cluster.in_bytes_per_s"),
        "under_replicated_count": sum(len(one.isr) < len(one.replicas) for one in infos),
        "offline_count": sum(one.leader_id < 0 for one in infos),
        "checks": checked.checks,
    }


async def checks(
    connection: Connection, admin: Admin, sample: Sample, brokers: list[Broker], before: Checked
) -> list[dict[str, Any]]:
    async def listeners() -> tuple[list[Finding], str]:
        unreached = {one.id: why for one in brokers if (why := await doctor.why_unreached(one)) is not None}
        asked = [one.strip() for one in connection.settings.get("bootstrap.servers", "").split(",")]
        return diagnosis.judge_listeners(asked, brokers, unreached), f"{counted(len(brokers), 'broker')} can be reached"

    async def partitions() -> tuple[list[Finding], str]:
        topics = dict(sample.topics)
        found = diagnosis.judge_partitions(topics, await doctor.min_isr(admin, topics))
        found += diagnosis.judge_replicas(topics, len(brokers))
        count = sum(len(info.partitions) for info in topics.values())
        return found, f"{counted(count, 'partition')}, all replicas in sync"

    async def groups() -> tuple[list[Finding], str]:
        """Seen twice, as far apart as two looks of the overview."""
        seen = await doctor.look_at_groups(admin)
        first, at = before.groups or seen, before.groups_at
        before.groups, before.groups_at = seen, time.monotonic()
        waited = time.monotonic() - at if at else 0.0
        found = diagnosis.judge_groups(first, seen, round(waited)) if waited else []
        return found, f"{counted(len(seen), 'group')}, none is stuck"

    async def transactions() -> tuple[list[Finding], str]:
        now = int(time.time() * 1000)
        found = await find_hanging_of(admin, doctor.HANGING_MS, now)
        return diagnosis.judge_transactions(found, now), "none hangs"

    async def skew() -> tuple[list[Finding], str]:
        return judge_skew(sample, [one.id for one in brokers]), "replicas and leaders are spread evenly"

    looks: list[tuple[str, Look]] = [
        ("listeners", listeners),
        ("security", lambda: doctor.check_security(admin, [one.id for one in brokers])),
        ("quorum", lambda: doctor.check_quorum(admin)),
        ("partitions", partitions),
        ("disks", lambda: doctor.check_disks(admin)),
        ("groups", groups),
        ("transactions", transactions),
        ("skew", skew),
    ]
    return [await _checked(name, look) for name, look in looks]


async def _checked(name: str, look: Look) -> dict[str, Any]:
    """One check. What cannot be looked at is a finding, too: the others are still looked at."""
    try:
        findings, well = await look()
    except KafkaError as error:
        fault = of_kafka(error)
        is_forbidden = fault.status == 403
        findings = [Finding(name, f"{name} cannot be looked at: {fault.message}", fault.hint or "", not is_forbidden)]
        well = "not looked at"
    is_ok = not any(one.is_problem for one in findings)
    return {
        "check": name,
        "ok": is_ok,
        "summary": well if is_ok else None,
        "findings": [{"is_problem": one.is_problem, "what": one.what, "todo": one.todo} for one in findings],
    }


def judge_skew(sample: Sample, broker_ids: list[int]) -> list[Finding]:
    """Brokers that hold or lead much more than their share."""
    if len(broker_ids) < 2:
        return []
    findings = []
    infos = [one for info in sample.topics.values() for one in info.partitions]
    for what, counts in (
        ("replicas", {id: sum(id in one.replicas for one in infos) for id in broker_ids}),
        ("leaders", {id: sum(id == one.leader_id for one in infos) for id in broker_ids}),
    ):
        mean = sum(counts.values()) / len(counts)
        worst = max(counts, key=lambda id: counts[id])
        if mean * len(counts) >= MIN_SKEWED_REPLICAS and counts[worst] > SKEWED * mean:
            todo = "rebalance" if what == "replicas" else "elect the preferred leaders, or rebalance"
            findings.append(
                Finding(
                    "skew",
                    f"broker {worst} has {counts[worst]} {what}, the mean is {mean:.0f}",
                    f"see Brokers: {todo} ('ottla cluster rebalance')",
                    is_problem=False,
                )
            )
    return findings
