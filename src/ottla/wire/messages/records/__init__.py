"""Records that Kafka writes to its own logs and files: a module each. Written by tools/messages.py.

The tables give (module, class) by the record's type.
"""

from importlib import import_module

from ottla.wire.message import Message

# of the cluster metadata log
METADATA: dict[int, tuple[str, str]] = {
    0: ("register_broker_record", "RegisterBrokerRecord"),
    1: ("unregister_broker_record", "UnregisterBrokerRecord"),
    2: ("topic_record", "TopicRecord"),
    3: ("partition_record", "PartitionRecord"),
    4: ("config_record", "ConfigRecord"),
    5: ("partition_change_record", "PartitionChangeRecord"),
    7: ("fence_broker_record", "FenceBrokerRecord"),
    8: ("unfence_broker_record", "UnfenceBrokerRecord"),
    9: ("remove_topic_record", "RemoveTopicRecord"),
    10: ("delegation_token_record", "DelegationTokenRecord"),
    11: ("user_scram_credential_record", "UserScramCredentialRecord"),
    12: ("feature_level_record", "FeatureLevelRecord"),
    14: ("client_quota_record", "ClientQuotaRecord"),
    15: ("producer_ids_record", "ProducerIdsRecord"),
    17: ("broker_registration_change_record", "BrokerRegistrationChangeRecord"),
    18: ("access_control_entry_record", "AccessControlEntryRecord"),
    19: ("remove_access_control_entry_record", "RemoveAccessControlEntryRecord"),
    20: ("no_op_record", "NoOpRecord"),
    21: ("zk_migration_state_record", "ZkMigrationStateRecord"),
    22: ("remove_user_scram_credential_record", "RemoveUserScramCredentialRecord"),
    23: ("begin_transaction_record", "BeginTransactionRecord"),
    24: ("end_transaction_record", "EndTransactionRecord"),
    25: ("abort_transaction_record", "AbortTransactionRecord"),
    26: ("remove_delegation_token_record", "RemoveDelegationTokenRecord"),
    27: ("register_controller_record", "RegisterControllerRecord"),
    28: ("clear_elr_record", "ClearElrRecord"),
    29: ("unregister_controller_record", "UnregisterControllerRecord"),
}

# keys of __consumer_offsets
GROUP_KEYS: dict[int, tuple[str, str]] = {
    0: ("legacy_offset_commit_key", "LegacyOffsetCommitKey"),
    1: ("offset_commit_key", "OffsetCommitKey"),
    2: ("group_metadata_key", "GroupMetadataKey"),
    3: ("consumer_group_metadata_key", "ConsumerGroupMetadataKey"),
    4: ("consumer_group_partition_metadata_key", "ConsumerGroupPartitionMetadataKey"),
    5: ("consumer_group_member_metadata_key", "ConsumerGroupMemberMetadataKey"),
    6: ("consumer_group_target_assignment_metadata_key", "ConsumerGroupTargetAssignmentMetadataKey"),
    7: ("consumer_group_target_assignment_member_key", "ConsumerGroupTargetAssignmentMemberKey"),
    8: ("consumer_group_current_member_assignment_key", "ConsumerGroupCurrentMemberAssignmentKey"),
    10: ("share_group_member_metadata_key", "ShareGroupMemberMetadataKey"),
    11: ("share_group_metadata_key", "ShareGroupMetadataKey"),
    12: ("share_group_target_assignment_metadata_key", "ShareGroupTargetAssignmentMetadataKey"),
    13: ("share_group_target_assignment_member_key", "ShareGroupTargetAssignmentMemberKey"),
    14: ("share_group_current_member_assignment_key", "ShareGroupCurrentMemberAssignmentKey"),
    15: ("share_group_state_partition_metadata_key", "ShareGroupStatePartitionMetadataKey"),
    16: ("consumer_group_regular_expression_key", "ConsumerGroupRegularExpressionKey"),
    17: ("streams_group_metadata_key", "StreamsGroupMetadataKey"),
    19: ("streams_group_member_metadata_key", "StreamsGroupMemberMetadataKey"),
    20: ("streams_group_target_assignment_metadata_key", "StreamsGroupTargetAssignmentMetadataKey"),
    21: ("streams_group_target_assignment_member_key", "StreamsGroupTargetAssignmentMemberKey"),
    22: ("streams_group_current_member_assignment_key", "StreamsGroupCurrentMemberAssignmentKey"),
    23: ("streams_group_topology_key", "StreamsGroupTopologyKey"),
}

# values of __consumer_offsets
GROUP_VALUES: dict[int, tuple[str, str]] = {
    0: ("legacy_offset_commit_value", "LegacyOffsetCommitValue"),
    1: ("offset_commit_value", "OffsetCommitValue"),
    2: ("group_metadata_value", "GroupMetadataValue"),
    3: ("consumer_group_metadata_value", "ConsumerGroupMetadataValue"),
    4: ("consumer_group_partition_metadata_value", "ConsumerGroupPartitionMetadataValue"),
    5: ("consumer_group_member_metadata_value", "ConsumerGroupMemberMetadataValue"),
    6: ("consumer_group_target_assignment_metadata_value", "ConsumerGroupTargetAssignmentMetadataValue"),
    7: ("consumer_group_target_assignment_member_value", "ConsumerGroupTargetAssignmentMemberValue"),
    8: ("consumer_group_current_member_assignment_value", "ConsumerGroupCurrentMemberAssignmentValue"),
    10: ("share_group_member_metadata_value", "ShareGroupMemberMetadataValue"),
    11: ("share_group_metadata_value", "ShareGroupMetadataValue"),
    12: ("share_group_target_assignment_metadata_value", "ShareGroupTargetAssignmentMetadataValue"),
    13: ("share_group_target_assignment_member_value", "ShareGroupTargetAssignmentMemberValue"),
    14: ("share_group_current_member_assignment_value", "ShareGroupCurrentMemberAssignmentValue"),
    15: ("share_group_state_partition_metadata_value", "ShareGroupStatePartitionMetadataValue"),
    16: ("consumer_group_regular_expression_value", "ConsumerGroupRegularExpressionValue"),
    17: ("streams_group_metadata_value", "StreamsGroupMetadataValue"),
    19: ("streams_group_member_metadata_value", "StreamsGroupMemberMetadataValue"),
    20: ("streams_group_target_assignment_metadata_value", "StreamsGroupTargetAssignmentMetadataValue"),
    21: ("streams_group_target_assignment_member_value", "StreamsGroupTargetAssignmentMemberValue"),
    22: ("streams_group_current_member_assignment_value", "StreamsGroupCurrentMemberAssignmentValue"),
    23: ("streams_group_topology_value", "StreamsGroupTopologyValue"),
}

# keys of __transaction_state
TRANSACTION_KEYS: dict[int, tuple[str, str]] = {
    0: ("transaction_log_key", "TransactionLogKey"),
}

# values of __transaction_state
TRANSACTION_VALUES: dict[int, tuple[str, str]] = {
    0: ("transaction_log_value", "TransactionLogValue"),
}

# keys of __share_group_state
SHARE_KEYS: dict[int, tuple[str, str]] = {
    0: ("share_snapshot_key", "ShareSnapshotKey"),
    1: ("share_update_key", "ShareUpdateKey"),
}

# values of __share_group_state
SHARE_VALUES: dict[int, tuple[str, str]] = {
    0: ("share_snapshot_value", "ShareSnapshotValue"),
    1: ("share_update_value", "ShareUpdateValue"),
}

# of __remote_log_metadata
REMOTE_LOG: dict[int, tuple[str, str]] = {
    0: ("remote_log_segment_metadata_record", "RemoteLogSegmentMetadataRecord"),
    1: ("remote_log_segment_metadata_update_record", "RemoteLogSegmentMetadataUpdateRecord"),
    2: ("remote_partition_delete_metadata_record", "RemotePartitionDeleteMetadataRecord"),
    3: ("remote_log_segment_metadata_snapshot_record", "RemoteLogSegmentMetadataSnapshotRecord"),
}


def record_class(table: dict[int, tuple[str, str]], key: int) -> type[Message]:
    """The class of a record type; KeyError for a type that Kafka 4.4.0 does not know."""
    module, name = table[key]
    cls: type[Message] = getattr(import_module(f"{__name__}.{module}"), name)
    return cls
