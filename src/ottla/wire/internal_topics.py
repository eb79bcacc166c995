"""The topics that Kafka keeps its own state in, by the names that brokers, clients and tools know."""

from __future__ import annotations

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset((GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC))
"""Topics whose records only coordinators write."""

AUDIT_TOPIC = "__ottla_audit"
"""Audit events of Ottla's nodes. To clients a topic like others: ACLs say which principals may read or write it."""
METADATA_TOPIC = "__cluster_metadata"
"""The log of the controllers; no topic of the metadata image."""
