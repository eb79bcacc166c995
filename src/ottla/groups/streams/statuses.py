"""Statuses in heartbeats of an application that cannot run. Messages are Kafka's."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.groups.streams.group import StreamsGroup, StreamsMember
from ottla.groups.streams.topology import (
    ASSIGNMENT_DELAYED,
    MISSING_CLIENT_TAGS,
    SHUTDOWN_APPLICATION,
    STALE_TOPOLOGY,
    ConfiguredTopology,
)
from ottla.wire.messages.streams_group_heartbeat import Status


def stale_topology(member: StreamsMember, topology_epoch: int) -> Status:
    detail = (
        f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch {topology_epoch}."
    )
    return Status(status_code=STALE_TOPOLOGY, status_detail=detail)


def assignment_delayed(setting: str) -> Status:
    return Status(status_code=ASSIGNMENT_DELAYED, status_detail=f"Assignment delayed due to the configured {setting}.")


def lasting_statuses(group: StreamsGroup, configured: ConfiguredTopology) -> list[Status]:
    """What every answer says until it changes."""
    statuses = []
    if configured.status_code is not None:
        statuses.append(Status(status_code=configured.status_code, status_detail=configured.status_detail))
    if group.shutdown_member_id is not None:
        detail = (
            f"Streams group member {group.shutdown_member_id} encountered a fatal error and requested a shutdown for "
            "the entire application."
        )
        statuses.append(Status(status_code=SHUTDOWN_APPLICATION, status_detail=detail))
    return statuses


def missing_tags(member: StreamsMember, tags: Iterable[str]) -> list[Status]:
    missing = [tag for tag in tags if tag not in member.tags]
    if not missing:
        return []
    detail = (
        f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. Configure them "
        "via 'client.tag.<tagKey>' in your Streams config."
    )
    return [Status(status_code=MISSING_CLIENT_TAGS, status_detail=detail)]
