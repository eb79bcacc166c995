"""Share groups (KIP-932): a queue on a topic, whose members acknowledge each record by itself.

`partition` is what the leader of a partition decides, `state_*` the share coordinator's shard and its records, `group*`
the groups in the shard of the group coordinator.
"""
