"""Share groups (KIP-932): a queue on a topic, whose members acknowledge each record by itself.

`partition` runs on the leader of a partition, `state_*` are the share coordinator's shard and its records, `group*` the
groups in a shard of the group coordinator.
"""
