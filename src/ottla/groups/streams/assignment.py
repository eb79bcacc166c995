"""Computes the target assignment of a streams group: chooses the assignor and its settings."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config import BrokerConfig, GroupConfig
from ottla.groups.streams.group import StreamsMember
from ottla.groups.streams.sticky_assignor import StreamsMemberSpec, assign_sticky
from ottla.groups.streams.tasks import NO_TARGET, Target
from ottla.groups.streams.topology import ConfiguredTopology

STICKY = "sticky"
HIGHLY_AVAILABLE = "highly_available"
AUTO = "auto"
"""The same as highly_available, which equals sticky for tasks without state."""
RACK_TAGS = "rack.aware.assignment.tags"
STANDBY_REPLICAS = "num.standby.replicas"


def assignment_configs(config: GroupConfig) -> dict[str, str]:
    """The settings that an assignment depends on, as stored in the group's record: a change causes a new assignment."""
    configs = {STANDBY_REPLICAS: str(config.streams_num_standby_replicas)}
    if config.streams_rack_aware_assignment_tags:
        configs[RACK_TAGS] = ",".join(config.streams_rack_aware_assignment_tags)
    return configs


def assignor_name(config: GroupConfig, broker: BrokerConfig) -> str:
    return config.streams_assignor_name or broker.group_streams_assignors[0]


def assign(
    members: Mapping[str, StreamsMember],
    before: Mapping[str, Target],
    topology: ConfiguredTopology,
    configs: Mapping[str, str],
) -> dict[str, Target]:
    """The target of every member. While topics are missing there are no tasks."""
    if not topology.is_ready:
        return dict.fromkeys(members, NO_TARGET)
    specs = {}
    for id, member in members.items():
        target = before.get(id, NO_TARGET)
        specs[id] = StreamsMemberSpec(member.process_id, target.active, target.standby, member.tags)
    return assign_sticky(
        specs,
        topology.subtopologies,
        standby_replica_count=int(configs.get(STANDBY_REPLICAS, "0")),
        rack_tags=tuple(filter(None, configs.get(RACK_TAGS, "").split(","))),
    )
