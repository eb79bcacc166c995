"""What an API file declares, and what a handler learns of who calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.broker.node import Node

Handler = Callable[[Any, "Node", "Caller"], Any | Awaitable[Any] | None]


@dataclass(slots=True)
class Peer:
    """The other end of a connection, and the door it came through."""

    host: str
    port: int
    listener: str
    role: str
    """Whether the door is that of a broker or of a controller."""
    software_name: str = ""
    software_version: str = ""
    """What ApiVersions said of the client's software."""
    broker_id: int = -1
    """Of a controller's door: the broker whose heartbeats come through it."""


@dataclass(slots=True)
class Caller:
    """Who sent a request."""

    client_id: str | None
    peer: Peer
    api_key: int
    api_version: int
    principal: str = "User:ANONYMOUS"
    throttle_ms: int = 0
    """A handler sets it when a quota is exceeded: the connection is not read for so long after the answer."""
    is_forwarded: bool = False
    """Whether a broker passed the request on, and has checked what concerns brokers."""
    is_refused: bool = False
    """A handler sets it to have the connection closed: the only answer that acks=0 leaves room for."""


@dataclass(slots=True, frozen=True)
class Api:
    key: int
    handler: Handler


SERVED: dict[int, str] = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    8: "offset_commit",
    9: "offset_fetch",
    10: "find_coordinator",
    11: "join_group",
    12: "heartbeat",
    13: "leave_group",
    14: "sync_group",
    15: "describe_groups",
    16: "list_groups",
    18: "api_versions",
    19: "create_topics",
    20: "delete_topics",
    21: "delete_records",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    24: "add_partitions_to_txn",
    25: "add_offsets_to_txn",
    26: "end_txn",
    27: "write_txn_markers",
    28: "txn_offset_commit",
    29: "describe_acls",
    30: "create_acls",
    31: "delete_acls",
    32: "describe_configs",
    33: "alter_configs",
    34: "alter_replica_log_dirs",
    35: "describe_log_dirs",
    37: "create_partitions",
    38: "create_delegation_token",
    39: "renew_delegation_token",
    40: "expire_delegation_token",
    41: "describe_delegation_token",
    42: "delete_groups",
    43: "elect_leaders",
    44: "incremental_alter_configs",
    45: "alter_partition_reassignments",
    46: "list_partition_reassignments",
    47: "offset_delete",
    48: "describe_client_quotas",
    49: "alter_client_quotas",
    50: "describe_user_scram_credentials",
    51: "alter_user_scram_credentials",
    52: "vote",
    53: "begin_quorum_epoch",
    54: "end_quorum_epoch",
    55: "describe_quorum",
    56: "alter_partition",
    57: "update_features",
    58: "envelope",
    59: "fetch_snapshot",
    60: "describe_cluster",
    61: "describe_producers",
    62: "broker_registration",
    63: "broker_heartbeat",
    64: "unregister_broker",
    65: "describe_transactions",
    66: "list_transactions",
    67: "allocate_producer_ids",
    68: "consumer_group_heartbeat",
    69: "consumer_group_describe",
    70: "controller_registration",
    71: "get_telemetry_subscriptions",
    72: "push_telemetry",
    73: "assign_replicas_to_dirs",
    74: "list_config_resources",
    75: "describe_topic_partitions",
    80: "add_raft_voter",
    81: "remove_raft_voter",
    82: "update_raft_voter",
}
"""The APIs that this node answers, by key, with their module in broker/apis. ApiVersions tells clients of these."""
