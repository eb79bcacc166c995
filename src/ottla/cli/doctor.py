"""`ottla doctor`: examines a cluster as a client sees it, and reports what is wrong and what to do about it."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ottla.cli import diagnosis
from ottla.cli.diagnosis import Finding, GroupSeen
from ottla.cli.output import TABLE, counted, wrapped, write_document
from ottla.cli.session import (
    ASK_THE_DOCTOR,
    Session,
    add_broker_options,
    add_output_option,
    command_parser,
    explained,
    guarded,
    run,
    unreachable,
)
from ottla.cli.started_as import as_started

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.metadata import Broker, TopicInfo

COMMAND = "ottla doctor"
CONNECT_TIMEOUT_S = 3.0
WAIT_S = 2.0
API_TIMEOUT_MS = "5000"
"""A cluster that is ill answers some questions never: the others should not wait long for that."""
HANGING_MS = 20 * 60_000
INDENT = " " * 9
EXAMPLES = """\
  ottla doctor
  ottla doctor --broker kafka.example.org:9092
  ottla doctor --wait 30              watch groups for half a minute
  ottla doctor -o json                for a monitor; exit code 1: something is wrong
  ottla doctor --spark                which Python and Java Spark would start; asks no broker
"""


def parser() -> argparse.ArgumentParser:
    made = command_parser(
        COMMAND,
        "Look for the classic mistakes: listeners out of reach, no quorum, replicas that are missing, full disks, "
        "groups that do not move, transactions that hang, clocks that differ. Works with Apache Kafka, too.",
        EXAMPLES,
    )
    made.add_argument(
        "--wait",
        type=float,
        default=WAIT_S,
        metavar="SECONDS",
        help=f"how long groups that are behind are watched ({WAIT_S:g})",
    )
    made.add_argument(
        "--spark",
        action="store_true",
        help='look at this machine instead: can the Python and Java that Spark would start run format("ottla")?',
    )
    add_broker_options(made)
    add_output_option(made)
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    if options.spark:
        return guarded(COMMAND, lambda: examine_spark(options))
    return run(COMMAND, options, lambda session: examine(session, options))


def examine_spark(options: argparse.Namespace) -> int:
    from ottla.cli import spark_diagnosis

    report = Report(options.output)
    for name, (findings, well) in spark_diagnosis.look(dict(os.environ)):
        report.add(name, findings, well)
    return report.finish()


async def examine(session: Session, options: argparse.Namespace) -> int:
    session.settings.setdefault("default.api.timeout.ms", API_TIMEOUT_MS)
    report = Report(options.output)
    brokers = await reach(session, report)
    if brokers is not None:
        admin = await session.admin()
        topics: dict[str, TopicInfo] = {}

        async def partitions() -> tuple[list[Finding], str]:
            topics.update(await admin.list_topics(include_internal=True))
            found = diagnosis.judge_partitions(topics, await min_isr(admin, topics)) + diagnosis.judge_replicas(
                topics, len(brokers)
            )
            count = sum(len(info.partitions) for info in topics.values())
            return found, f"{counted(count, 'partition')} of {counted(len(topics), 'topic')}, all replicas in sync"

        await report.check("security", lambda: check_security(admin, [broker.id for broker in brokers]))
        await report.check("quorum", lambda: check_quorum(admin))
        await report.check("partitions", partitions)
        await report.check("disks", lambda: check_disks(admin))
        await report.check("groups", lambda: check_groups(admin, options.wait))
        await report.check("transactions", lambda: check_transactions(session))
    return report.finish()


class Report:
    """The facts and the findings."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._checks: list[dict[str, Any]] = []
        self._problem_count = 0

    async def check(self, name: str, look: Callable[[], Awaitable[tuple[list[Finding], str]]]) -> None:
        """Look at one thing. What cannot be looked at is a finding, too: the others are still looked at."""
        from ottla.client.errors import KafkaError

        try:
            findings, well = await look()
        except KafkaError as error:
            why = "\n".join(line for line in explained(error).splitlines() if line.strip() != ASK_THE_DOCTOR)
            findings = [Finding(name, f"not checked: {why}", "mend the other problems first, then run it again")]
            well = ""
        self.add(name, findings, well)

    def add(self, name: str, findings: list[Finding], well: str) -> None:
        is_well = not any(one.is_problem for one in findings)
        self._problem_count += sum(one.is_problem for one in findings)
        self._checks.append(
            {
                "check": name,
                "ok": is_well,
                "summary": well if is_well else None,
                "findings": [
                    {"check": one.check, "problem": one.is_problem, "what": one.what, "todo": one.todo}
                    for one in findings
                ],
            }
        )
        if self._output == TABLE:
            if is_well:
                print(wrapped(f"ok       {name}: {well}", INDENT))
            for one in findings:
                print(wrapped(f"{'PROBLEM' if one.is_problem else 'note   '}  {one.check}: {one.what}", INDENT))
                print(wrapped(f"{INDENT}-> {as_started(one.todo)}", f"{INDENT}   "))

    def finish(self) -> int:
        if self._output != TABLE:
            write_document(self._output, {"ok": not self._problem_count, "checks": self._checks})
        elif self._problem_count:
            print(f"\n{counted(self._problem_count, 'problem')} found")
        return 1 if self._problem_count else 0


# --- looking


async def reach(session: Session, report: Report) -> list[Broker] | None:
    """The brokers, if at least one can be worked with: asked at the address given, then at those they advertise."""
    from ottla.client.cluster import Cluster
    from ottla.client.config import AdminConfig
    from ottla.client.errors import KafkaError

    config = AdminConfig.parse(session.settings_for(AdminConfig))
    cluster = Cluster(config, allow_auto_topic_creation=False)
    try:
        brokers = sorted((await cluster.refresh([])).brokers.values())
    except KafkaError as error:
        what, *rest = unreachable(error, session.target.broker, session.target.cluster).split("\n")
        report.add("listeners", [Finding("listeners", what, "; ".join(one.strip() for one in rest))], "")
        return None
    finally:
        await cluster.close()
    unreached = {}
    for broker in brokers:
        reason = await why_unreached(broker)
        if reason is not None:
            unreached[broker.id] = reason
    findings = diagnosis.judge_listeners(config.bootstrap_servers, brokers, unreached)
    if not brokers:
        todo = "start a broker, and see in its log why it is fenced"
        findings.append(Finding("listeners", f"{session.target.broker} answers, but no broker is in service", todo))
    where = ", ".join(f"{broker.id} at {broker.host}:{broker.port}" for broker in brokers)
    report.add("listeners", findings, f"{'broker' if len(brokers) == 1 else 'brokers'} {where} can be reached")
    return None if len(unreached) == len(brokers) else brokers


async def why_unreached(broker: Broker) -> str | None:
    """Why no connection to a broker's advertised address can be made; None if one can."""
    import asyncio

    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, writer = await asyncio.open_connection(broker.host, broker.port)
        writer.close()
        await writer.wait_closed()
    except TimeoutError:
        return f"nothing answers there within {CONNECT_TIMEOUT_S:g} s"
    except OSError as error:
        import socket

        if isinstance(error, socket.gaierror):
            return f"the name {broker.host!r} is not known"
        if isinstance(error, ConnectionRefusedError):
            return "nothing listens there (connection refused)"
        return str(error)
    return None


async def check_security(admin: Admin, broker_ids: list[int]) -> tuple[list[Finding], str]:
    from ottla.client.admin import ConfigResource, ResourceType

    resources = {ConfigResource(ResourceType.BROKER, str(id)): id for id in broker_ids}
    described = await admin.describe_configs(list(resources))
    settings = {
        resources[resource]: {name: entry.value for name, entry in entries.items()}
        for resource, entries in described.items()
    }
    return diagnosis.judge_security(settings), "no listener without TLS is open to other machines"


async def check_quorum(admin: Admin) -> tuple[list[Finding], str]:
    from ottla.client.errors import ErrorCode, KafkaError

    try:
        quorum = await admin.describe_quorum()
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            return [], "not looked at: the broker is older than KRaft"
        if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return [diagnosis.quorum_is_hidden()], ""
        return diagnosis.judge_quorum(None, 0), ""
    findings = diagnosis.judge_quorum(quorum, int(time.time() * 1000))
    return findings, f"controller {quorum.leader_id} leads a quorum of {len(quorum.voters)}"


async def min_isr(admin: Admin, topics: dict[str, TopicInfo]) -> dict[str, int]:
    """min.insync.replicas of the topics that lack a replica."""
    from ottla.client.admin import ConfigResource, ResourceType

    lacking = [
        ConfigResource(ResourceType.TOPIC, name)
        for name, info in topics.items()
        if any(len(one.isr) < len(one.replicas) for one in info.partitions)
    ]
    described = await admin.describe_configs(lacking) if lacking else {}
    return {resource.name: int(entries["min.insync.replicas"].value or 1) for resource, entries in described.items()}


async def check_disks(admin: Admin) -> tuple[list[Finding], str]:
    from ottla.cli.output import bytes_text

    folders = await admin.describe_log_dirs()
    free = [folder.usable_bytes for of_broker in folders.values() for folder in of_broker if folder.usable_bytes >= 0]
    return diagnosis.judge_disks(
        folders
    ), f"at least {bytes_text(min(free))} free everywhere" if free else "no data folders"


async def check_groups(admin: Admin, wait_s: float) -> tuple[list[Finding], str]:
    import asyncio

    before = await look_at_groups(admin)
    after = before
    if any(seen.lag for seen in before.values()):
        await asyncio.sleep(wait_s)
        after = await look_at_groups(admin)
    count = len(after)
    return diagnosis.judge_groups(before, after, wait_s), f"{counted(count, 'group')}, none is stuck"


async def look_at_groups(admin: Admin) -> dict[str, GroupSeen]:
    from ottla.client.core.isolation import IsolationLevel
    from ottla.client.errors import ErrorCode, KafkaError

    seen = {}
    for listed in await admin.list_groups():
        if listed.type.lower() not in ("classic", "consumer", ""):
            continue
        try:
            described = (await admin.describe_groups([listed.group_id]))[listed.group_id]
            lags = await admin.group_lag(listed.group_id, isolation_level=IsolationLevel.READ_COMMITTED)
        except KafkaError as error:
            if error.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                # Gone since it was listed, or its topic is.
                continue
            raise
        seen[listed.group_id] = GroupSeen(
            described.state,
            len(described.members),
            {partition: lag.committed for partition, lag in lags.items() if lag.committed is not None},
            sum(lag.lag or 0 for lag in lags.values()),
        )
    return seen


async def check_transactions(session: Session) -> tuple[list[Finding], str]:
    from ottla.cli.transactions import find_hanging

    now = int(time.time() * 1000)
    return diagnosis.judge_transactions(await find_hanging(session, [], HANGING_MS, now), now), "none hangs"
