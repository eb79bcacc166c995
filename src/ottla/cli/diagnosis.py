"""What is wrong with a cluster, decided from what was seen of it: the classic mistakes, and what to do about each.

Every `judge_*` takes facts and gives findings; none means all is well. Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.output import bytes_text, counted, duration_text

if TYPE_CHECKING:
    from ottla.cli.transactions import OpenTransaction
    from ottla.client.admin import LogDir, QuorumDescription
    from ottla.client.core.partitions import TopicPartition
    from ottla.client.metadata import Broker, PartitionInfo, TopicInfo

LOW_DISK_SHARE, LOW_DISK_BYTES = 0.10, 1 << 30
MAX_CLOCK_DIFFERENCE_MS = 5_000
MAX_QUORUM_SILENCE_MS = 10_000
SHOWN = 5
_LOOPBACK = ("localhost", "127.", "::1")
_EVERYWHERE = ("0.0.0.0", "::", "")


class Finding(NamedTuple):
    """Something that is wrong, or that may become so."""

    check: str
    what: str
    todo: str
    is_problem: bool = True
    """Otherwise it is worth knowing, no more."""


class GroupSeen(NamedTuple):
    """A group at one moment."""

    state: str
    member_count: int
    committed: Mapping[TopicPartition, int]
    lag: int
    """Records that a reader of committed records has still to get, of the partitions with a committed offset."""


def some(items: Iterable[object]) -> str:
    """The first few of many."""
    names = [str(item) for item in items]
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def judge_listeners(asked: Sequence[str], brokers: Iterable[Broker], unreached: Mapping[int, str]) -> list[Finding]:
    """Whether clients can connect to the advertised addresses. `unreached` has the reason by broker id."""
    findings = []
    for broker in brokers:
        advertised = f"{broker.host}:{broker.port}"
        todo = (
            f"on broker {broker.id} set advertised.listeners=PLAINTEXT://HOST:{broker.port} to the name or address "
            "under which this machine reaches it, and start it again"
        )
        if broker.host in _EVERYWHERE:
            findings.append(Finding("listeners", f"broker {broker.id} advertises {advertised}, which is nowhere", todo))
        elif broker.id in unreached:
            what = f"broker {broker.id} advertises {advertised}, and from here {unreached[broker.id]}"
            if advertised not in asked:
                what += f"; {some(asked)} answers, but every client is sent on to {advertised}"
            if advertised in asked or "nothing listens" in unreached[broker.id]:
                todo = f"is broker {broker.id} running? is a firewall between? if its address has changed, {todo}"
            findings.append(Finding("listeners", what, todo))
        elif _is_loopback(broker.host) and not all(_is_loopback(one) for one in asked):
            findings.append(
                Finding(
                    "listeners",
                    f"broker {broker.id} advertises {advertised}: clients on other machines look for it on their own",
                    todo,
                )
            )
    return findings


def _is_loopback(address: str) -> bool:
    return address.strip("[]").startswith(_LOOPBACK)


def judge_security(settings: Mapping[int, Mapping[str, str | None]]) -> list[Finding]:
    """Whether listeners are open to every machine, and whether logins count for nothing. `settings` are those of the
    brokers, by id."""
    from ottla.config.open_listeners import open_entries

    findings = []
    for id, values in settings.items():
        entries = open_entries(values.get("listeners") or "", values.get("listener.security.protocol.map") or "")
        if entries:
            findings.append(
                Finding(
                    "security",
                    f"broker {id} listens without TLS where other machines reach it: {', '.join(entries)}",
                    "use SASL_SSL ('ottla security --help', docs/security.md), or listen on 127.0.0.1",
                )
            )
        if "SASL_" in (values.get("listeners") or "") and not values.get("authorizer.class.name"):
            findings.append(
                Finding(
                    "security",
                    f"broker {id} has logins and no authorizer: every user may do everything",
                    "set authorizer.class.name and super.users on all nodes",
                    is_problem=False,
                )
            )
    return findings


def quorum_is_hidden() -> Finding:
    """A principal without DESCRIBE on the cluster learns nothing of the controllers, so nothing is judged."""
    return Finding(
        "quorum",
        "the quorum cannot be looked at: not allowed on this cluster",
        "an ACL has to allow DESCRIBE on the cluster",
        is_problem=False,
    )


def judge_quorum(quorum: QuorumDescription | None, now_ms: int) -> list[Finding]:
    """Whether the controllers can decide; None if none of them answers."""
    findings = []
    if quorum is None or quorum.leader_id < 0:
        voters = "them" if quorum is None else str(len(quorum.voters))
        findings.append(
            Finding(
                "quorum",
                "the controllers have no leader: nothing can be created, changed or elected",
                f"start the controllers again until more than half of {voters} run; see their logs",
            )
        )
        return findings
    silent = [
        one.replica_id
        for one in quorum.voters
        if one.replica_id != quorum.leader_id and now_ms - one.last_caught_up_timestamp > MAX_QUORUM_SILENCE_MS
    ]
    if silent:
        left = len(quorum.voters) - len(silent)
        needed = len(quorum.voters) // 2 + 1
        spare = "one more and nothing can be changed" if left <= needed else "it still has a majority"
        do = "does" if len(silent) == 1 else "do"
        findings.append(
            Finding(
                "quorum",
                f"{_numbered('controller', silent)} {do} not follow the leader "
                f"({left} of {len(quorum.voters)} do; {spare})",
                "are they running? can they reach the leader? see their logs",
            )
        )
    leader = next((one for one in quorum.voters if one.replica_id == quorum.leader_id), None)
    if leader is not None and leader.last_caught_up_timestamp > 0:
        difference = leader.last_caught_up_timestamp - now_ms
        if abs(difference) > MAX_CLOCK_DIFFERENCE_MS:
            where = "ahead of" if difference > 0 else "behind"
            findings.append(
                Finding(
                    "clock",
                    f"the clock of controller {quorum.leader_id} is {duration_text(abs(difference))} {where} this "
                    "machine's: retention and reading by time go wrong by as much",
                    "let both take their time from NTP (timedatectl shows whether they do)",
                )
            )
    return findings


def judge_partitions(topics: Mapping[str, TopicInfo], min_isr: Mapping[str, int]) -> list[Finding]:
    """Partitions that cannot be used, or that one more failure would take away."""
    every = [one for info in topics.values() for one in info.partitions]
    offline = [one for one in every if one.leader_id < 0]
    scarce = [
        one for one in every if one not in offline and len(one.isr) < min(min_isr.get(one.topic, 1), len(one.replicas))
    ]
    behind = [one for one in every if len(one.isr) < len(one.replicas) and one not in offline and one not in scarce]
    findings = []
    if offline:
        findings.append(
            Finding(
                "partitions",
                f"{_have(offline)} no leader and can be neither read nor written: {_names(offline)}",
                f"start {_missing(offline)} again; if lost for ever, "
                "kafka-leader-election.sh --election-type unclean takes what is left of the data",
            )
        )
    if scarce:
        findings.append(
            Finding(
                "partitions",
                f"{_have(scarce)} fewer replicas in sync than min.insync.replicas: "
                f"acks=all is refused: {_names(scarce)}",
                f"start {_missing(scarce)} again, or find out why the replicas do not catch up",
            )
        )
    if behind:
        findings.append(
            Finding(
                "partitions",
                f"{counted(len(behind), 'partition')} {'is' if len(behind) == 1 else 'are'} under-replicated: "
                f"{_names(behind)}",
                f"down or too slow: {_missing(behind)}; start what is down, look at disk and network of what is slow",
            )
        )
    return findings


def _names(partitions: Sequence[PartitionInfo]) -> str:
    return some(f"{one.topic}-{one.partition}" for one in partitions)


def _missing(partitions: Iterable[PartitionInfo]) -> str:
    """`broker 2`, `brokers 2, 3`: the brokers whose replicas are not in sync."""
    ids = sorted({replica for one in partitions for replica in one.replicas if replica not in one.isr})
    return _numbered("broker", ids)


def _numbered(noun: str, ids: Sequence[int]) -> str:
    return f"{noun}{'' if len(ids) == 1 else 's'} {some(ids)}"


def _have(partitions: Sequence[PartitionInfo]) -> str:
    return f"{counted(len(partitions), 'partition')} {'has' if len(partitions) == 1 else 'have'}"


def judge_replicas(topics: Mapping[str, TopicInfo], broker_count: int) -> list[Finding]:
    """Kafka's own topics with one copy are lost with one disk, whatever the other topics have."""
    lonely = [
        name
        for name, info in topics.items()
        if info.is_internal and broker_count > 1 and any(len(one.replicas) < 2 for one in info.partitions)
    ]
    if not lonely:
        return []
    have = "has" if len(lonely) == 1 else "have"
    return [
        Finding(
            "replicas",
            f"{some(lonely)} {have} one replica only: with that broker go all committed offsets or transactions",
            "raise it with kafka-reassign-partitions.sh; offsets.topic.replication.factor counts for new ones",
            is_problem=False,
        )
    ]


def judge_disks(folders: Mapping[int, Sequence[LogDir]]) -> list[Finding]:
    findings = []
    for broker_id, of_broker in folders.items():
        for folder in of_broker:
            if folder.error is not None:
                findings.append(
                    Finding(
                        "disks",
                        f"{folder.path} of broker {broker_id} is offline: {folder.error.code.text}",
                        "see the broker's log for the disk's error; replace the disk and start the broker again",
                    )
                )
            elif folder.total_bytes > 0 and folder.usable_bytes < max(
                LOW_DISK_SHARE * folder.total_bytes, min(LOW_DISK_BYTES, folder.total_bytes / 2)
            ):
                largest = sorted(folder.replicas.items(), key=lambda one: -one[1].size_bytes)[:3]
                findings.append(
                    Finding(
                        "disks",
                        f"the disk of {folder.path} (broker {broker_id}) is almost full: "
                        f"{bytes_text(folder.usable_bytes)} of {bytes_text(folder.total_bytes)} are left",
                        "shorten retention (ottla topics alter TOPIC --config retention.ms=...) or delete records; "
                        f"largest: {some(f'{place} {bytes_text(log.size_bytes)}' for place, log in largest) or '-'}",
                    )
                )
    return findings


def judge_groups(before: Mapping[str, GroupSeen], after: Mapping[str, GroupSeen], wait_s: float) -> list[Finding]:
    """Groups that are behind and do not get on, seen twice."""
    findings = []
    for name, seen in after.items():
        first = before.get(name, seen)
        if not seen.lag:
            continue
        behind = f"group {name} is {counted(seen.lag, 'record')} behind"
        if not seen.member_count:
            if name in before and seen.committed != first.committed:
                continue  # Spark and Flink commit what they have read without joining the group
            findings.append(
                Finding(
                    "groups",
                    f"{behind} and has no members",
                    f"start its consumers; if the group is not needed any more: ottla groups delete {name}",
                )
            )
        elif seen.state != "Stable" and first.state != "Stable":
            findings.append(
                Finding(
                    "groups",
                    f"{behind} and rebalances ({seen.state}): {counted(seen.member_count, 'member')} did not agree yet",
                    "look for members that join and leave again, or take longer than max.poll.interval.ms",
                )
            )
        elif seen.lag >= first.lag > 0 and seen.committed == first.committed:
            findings.append(
                Finding(
                    "groups",
                    f"{behind} and has committed nothing in {wait_s:g} s, with {counted(seen.member_count, 'member')}",
                    "look at its members: an error they meet again and again (a poison record), a slow downstream "
                    f"system, commits switched off? ottla groups describe {name}",
                )
            )
    return findings


def judge_transactions(hanging: Sequence[OpenTransaction], now_ms: int) -> list[Finding]:
    if not hanging:
        return []
    oldest = max(now_ms - one.last_timestamp for one in hanging)
    hang = "hangs" if len(hanging) == 1 else "hang"
    return [
        Finding(
            "transactions",
            f"{counted(len(hanging), 'transaction')} {hang}, the oldest for {duration_text(oldest)}: readers of "
            f"committed records stand still in {some(one.partition for one in hanging)}",
            "ottla transactions hanging --end writes what is missing; their records count as aborted",
        )
    ]
