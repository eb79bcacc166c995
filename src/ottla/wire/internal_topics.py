"""The topics that a cluster keeps its own state in, by the names that brokers, clients and tools know."""

from __future__ import annotations

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
AUDIT_TOPIC = "__ottla_audit"
"""Audit events of Ottla's nodes."""
INTERNAL_TOPICS = frozenset((GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC, AUDIT_TOPIC))
"""Topics whose records only nodes write: coordinators, and of the audit topic all nodes. Metadata calls them internal,
and a subscription by pattern leaves them out."""
METADATA_TOPIC = "__cluster_metadata"
"""The log of the controllers; no topic of the metadata image."""
