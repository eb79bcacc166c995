"""Every setting of a Kafka 4.3.1 broker and controller: name, type, default, importance, bounds and update mode.

The names and numbers are Kafka's; `implemented.py` says which of them have an effect here, `docs.py` what they mean.
"""

from __future__ import annotations

from typing import Final

from ottla.config.keys import (
    ANY_LIST,
    CLUSTER_WIDE,
    GZIP_LEVEL,
    HIGH,
    LOW,
    MAX_ARRAY_BYTES,
    MAX_INT,
    MAX_LONG,
    MEDIUM,
    NON_EMPTY,
    NON_EMPTY_LIST,
    NON_NULL,
    PER_BROKER,
    REQUIRED,
    Boolean,
    Class,
    Double,
    Int,
    List,
    Long,
    Password,
    Short,
    String,
    at_least,
    between,
    list_of,
    one_of,
    setting,
)
from ottla.config.listeners import Listener
from ottla.config.settings import Settings

Listeners = tuple[Listener, ...]

COMPRESSION_TYPE: Final = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPE: Final = one_of("CreateTime", "LogAppendTime")
STREAMS_ASSIGNORS: Final = ("auto", "sticky", "highly_available")
CLEANUP_POLICY: Final = list_of("compact", "delete")


class BrokerSettings(Settings):
    """The declarations. `BrokerConfig` adds how they are read and what follows from several of them together."""

    __slots__ = ()

    # Tiered storage.
    remote_log_storage_system_enable: Boolean = setting(False, MEDIUM)
    remote_log_storage_manager_impl_prefix: String = setting("rsm.config.", MEDIUM, NON_EMPTY)
    remote_log_metadata_manager_impl_prefix: String = setting("rlmm.config.", MEDIUM, NON_EMPTY)
    remote_log_storage_manager_class_name: String | None = setting(None, MEDIUM, NON_EMPTY)
    remote_log_storage_manager_class_path: String | None = setting(None, MEDIUM)
    remote_log_metadata_manager_class_name: String = setting(
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager", MEDIUM, NON_EMPTY
    )
    remote_log_metadata_manager_class_path: String | None = setting(None, MEDIUM)
    remote_log_metadata_manager_listener_name: String | None = setting(None, MEDIUM, NON_EMPTY)
    remote_log_metadata_custom_metadata_max_bytes: Int = setting(128, LOW, at_least(0))
    remote_log_index_file_cache_total_size_bytes: Long = setting(1_073_741_824, LOW, at_least(1), CLUSTER_WIDE)
    remote_log_index_file_cache_ttl_ms: Long = setting(900_000, LOW, at_least(-1), internal=True)
    remote_log_manager_thread_pool_size: Int = setting(2, MEDIUM, at_least(1))
    remote_log_manager_copier_thread_pool_size: Int = setting(10, MEDIUM, at_least(1), CLUSTER_WIDE)
    remote_log_manager_expiration_thread_pool_size: Int = setting(10, MEDIUM, at_least(1), CLUSTER_WIDE)
    remote_log_manager_follower_thread_pool_size: Int = setting(2, MEDIUM, at_least(1), CLUSTER_WIDE)
    remote_log_manager_task_interval_ms: Long = setting(30_000, LOW, at_least(1))
    remote_log_manager_task_retry_backoff_ms: Long = setting(500, LOW, at_least(1), internal=True)
    remote_log_manager_task_retry_backoff_max_ms: Long = setting(30_000, LOW, at_least(1), internal=True)
    remote_log_manager_task_retry_jitter: Double = setting(0.2, LOW, between(0, 0.5), internal=True)
    remote_log_reader_threads: Int = setting(10, MEDIUM, at_least(1), CLUSTER_WIDE)
    remote_log_reader_max_pending_tasks: Int = setting(100, MEDIUM, at_least(1))
    log_local_retention_ms: Long = setting(-2, MEDIUM, at_least(-2), CLUSTER_WIDE)
    log_local_retention_bytes: Long = setting(-2, MEDIUM, at_least(-2), CLUSTER_WIDE)
    remote_log_manager_copy_max_bytes_per_second: Long = setting(MAX_LONG, MEDIUM, at_least(1), CLUSTER_WIDE)
    remote_log_manager_copy_quota_window_num: Int = setting(11, MEDIUM, at_least(1))
    remote_log_manager_copy_quota_window_size_seconds: Int = setting(1, MEDIUM, at_least(1))
    remote_log_manager_fetch_max_bytes_per_second: Long = setting(MAX_LONG, MEDIUM, at_least(1), CLUSTER_WIDE)
    remote_log_manager_fetch_quota_window_num: Int = setting(11, MEDIUM, at_least(1))
    remote_log_manager_fetch_quota_window_size_seconds: Int = setting(1, MEDIUM, at_least(1))
    remote_fetch_max_wait_ms: Int = setting(500, MEDIUM, at_least(1), CLUSTER_WIDE)
    remote_list_offsets_request_timeout_ms: Long = setting(30_000, MEDIUM, at_least(1), CLUSTER_WIDE)

    # The server.
    broker_id: Int = setting(-1, HIGH)
    message_max_bytes: Int = setting(1_048_588, HIGH, at_least(0), CLUSTER_WIDE)
    max_decompressed_message_bytes: Int = setting(MAX_ARRAY_BYTES, MEDIUM, between(1, MAX_ARRAY_BYTES), CLUSTER_WIDE)
    num_io_threads: Int = setting(8, HIGH, at_least(1), CLUSTER_WIDE)
    num_replica_alter_log_dirs_threads: Int | None = setting(None, HIGH)
    background_threads: Int = setting(10, HIGH, at_least(1), CLUSTER_WIDE)
    request_timeout_ms: Int = setting(30_000, HIGH)
    socket_connection_setup_timeout_ms: Long = setting(10_000, MEDIUM)
    socket_connection_setup_timeout_max_ms: Long = setting(30_000, MEDIUM)
    config_providers: List = setting((), LOW, ANY_LIST, CLUSTER_WIDE)
    authorizer_class_name: String = setting("", LOW, NON_NULL)
    early_start_listeners: List | None = setting(None, HIGH, ANY_LIST)
    broker_rack: String | None = setting(None, MEDIUM)
    controlled_shutdown_enable: Boolean = setting(True, MEDIUM)
    delete_topic_enable: Boolean = setting(True, HIGH)
    compression_type: String = setting("producer", HIGH, COMPRESSION_TYPE, CLUSTER_WIDE)
    compression_gzip_level: Int = setting(-1, MEDIUM, GZIP_LEVEL, CLUSTER_WIDE)
    compression_lz4_level: Int = setting(9, MEDIUM, between(1, 17), CLUSTER_WIDE)
    compression_zstd_level: Int = setting(3, MEDIUM, between(-131_072, 22), CLUSTER_WIDE)
    max_incremental_fetch_session_cache_slots: Int = setting(1000, MEDIUM, at_least(0))
    fetch_max_bytes: Int = setting(57_671_680, MEDIUM, at_least(1024))
    max_request_partition_size_limit: Int = setting(2000, MEDIUM, at_least(1))
    unstable_api_versions_enable: Boolean = setting(False, HIGH, internal=True)
    unstable_feature_versions_enable: Boolean = setting(False, HIGH, internal=True)

    # KRaft: roles, registration, the metadata log.
    process_roles: List = setting(REQUIRED, HIGH, list_of("broker", "controller", may_be_empty=False))
    node_id: Int = setting(REQUIRED, HIGH, at_least(0))
    initial_broker_registration_timeout_ms: Int = setting(60_000, MEDIUM)
    broker_heartbeat_interval_ms: Int = setting(2000, MEDIUM)
    broker_session_timeout_ms: Int = setting(9000, MEDIUM)
    controller_listener_names: List = setting(REQUIRED, HIGH, NON_EMPTY_LIST)
    sasl_mechanism_controller_protocol: String = setting("GSSAPI", HIGH)
    controller_performance_sample_period_ms: Long = setting(60_000, MEDIUM, at_least(100), internal=True)
    controller_performance_always_log_threshold_ms: Long = setting(2000, MEDIUM, at_least(0), internal=True)
    server_max_startup_time_ms: Long = setting(MAX_LONG, MEDIUM, at_least(0), internal=True)
    metadata_log_max_record_bytes_between_snapshots: Long = setting(20_971_520, HIGH, at_least(1))
    metadata_log_max_snapshot_interval_ms: Long = setting(3_600_000, HIGH, at_least(0))
    metadata_log_dir: String | None = setting(None, HIGH)
    metadata_log_segment_bytes: Int = setting(1_073_741_824, HIGH, at_least(8_388_608))
    metadata_log_segment_ms: Long = setting(604_800_000, HIGH)
    metadata_max_retention_bytes: Long = setting(104_857_600, HIGH)
    metadata_max_retention_ms: Long = setting(604_800_000, HIGH)
    metadata_max_idle_interval_ms: Int = setting(500, LOW, at_least(0))
    internal_metadata_log_segment_bytes: Int | None = setting(None, LOW, internal=True)
    internal_metadata_max_batch_size_in_bytes: Int = setting(8_388_608, LOW, internal=True)
    internal_metadata_delete_delay_millis: Long = setting(60_000, LOW, internal=True)

    # Listeners and connections.
    listeners: Listeners = setting((Listener("PLAINTEXT", "", 9092, "PLAINTEXT"),), HIGH, NON_EMPTY_LIST, PER_BROKER)
    advertised_listeners: Listeners | None = setting(None, HIGH, NON_EMPTY_LIST)
    listener_security_protocol_map: String = setting(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", LOW, None, PER_BROKER
    )
    socket_send_buffer_bytes: Int = setting(102_400, HIGH)
    socket_receive_buffer_bytes: Int = setting(102_400, HIGH)
    socket_request_max_bytes: Int = setting(104_857_600, HIGH, at_least(1))
    socket_listen_backlog_size: Int = setting(50, MEDIUM, at_least(1))
    max_connections_per_ip: Int = setting(MAX_INT, MEDIUM, at_least(0), CLUSTER_WIDE)
    max_connections_per_ip_overrides: String = setting("", MEDIUM, None, CLUSTER_WIDE)
    max_connections: Int = setting(MAX_INT, MEDIUM, at_least(0), CLUSTER_WIDE)
    max_connection_creation_rate: Int = setting(MAX_INT, MEDIUM, at_least(0), CLUSTER_WIDE)
    connections_max_idle_ms: Long = setting(600_000, MEDIUM)
    connection_failed_authentication_delay_ms: Int = setting(100, LOW, at_least(0))
    queued_max_requests: Int = setting(500, HIGH, at_least(1))
    queued_max_request_bytes: Long = setting(-1, MEDIUM)
    num_network_threads: Int = setting(3, HIGH, at_least(1), CLUSTER_WIDE)

    # Replication.
    controller_socket_timeout_ms: Int = setting(30_000, MEDIUM)
    default_replication_factor: Int = setting(1, MEDIUM)
    replica_lag_time_max_ms: Long = setting(30_000, HIGH)
    replica_socket_timeout_ms: Int = setting(30_000, HIGH)
    replica_socket_receive_buffer_bytes: Int = setting(65_536, HIGH)
    replica_fetch_max_bytes: Int = setting(1_048_576, MEDIUM, at_least(0))
    replica_fetch_wait_max_ms: Int = setting(500, HIGH)
    replica_fetch_backoff_ms: Int = setting(1000, MEDIUM, at_least(0))
    replica_fetch_min_bytes: Int = setting(1, HIGH)
    replica_fetch_response_max_bytes: Int = setting(10_485_760, MEDIUM, at_least(0))
    num_replica_fetchers: Int = setting(1, HIGH, at_least(1), CLUSTER_WIDE)
    replica_high_watermark_checkpoint_interval_ms: Long = setting(5000, HIGH)
    fetch_purgatory_purge_interval_requests: Int = setting(1000, MEDIUM)
    producer_purgatory_purge_interval_requests: Int = setting(1000, MEDIUM)
    delete_records_purgatory_purge_interval_requests: Int = setting(1, MEDIUM)
    auto_leader_rebalance_enable: Boolean = setting(True, HIGH)
    leader_imbalance_check_interval_seconds: Long = setting(300, HIGH, at_least(1))
    unclean_leader_election_interval_ms: Long = setting(300_000, MEDIUM, at_least(1), internal=True)
    unclean_leader_election_enable: Boolean = setting(False, HIGH, None, CLUSTER_WIDE)
    security_inter_broker_protocol: String = setting(
        "PLAINTEXT", MEDIUM, one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
    )
    inter_broker_listener_name: String | None = setting(None, MEDIUM)
    replica_selector_class: String | None = setting(None, MEDIUM)
    follower_fetch_last_tiered_offset_enable: Boolean = setting(False, MEDIUM, None, CLUSTER_WIDE)

    # Groups.
    group_coordinator_rebalance_protocols: List = setting(
        ("classic", "consumer", "streams"),
        MEDIUM,
        list_of("consumer", "classic", "share", "streams", may_be_empty=False),
    )
    group_coordinator_threads: Int = setting(4, HIGH, at_least(1))
    group_coordinator_background_threads: Int = setting(2, HIGH, at_least(1))
    group_coordinator_append_linger_ms: Int = setting(-1, MEDIUM, at_least(-1))
    offsets_commit_timeout_ms: Int = setting(5000, HIGH, at_least(1))
    offsets_load_buffer_size: Int = setting(5_242_880, HIGH, at_least(1))
    offsets_topic_replication_factor: Short = setting(3, HIGH, at_least(1))
    offsets_topic_num_partitions: Int = setting(50, HIGH, at_least(1))
    offsets_topic_segment_bytes: Int = setting(104_857_600, HIGH, at_least(1))
    offsets_topic_compression_codec: Int = setting(0, HIGH)
    group_coordinator_cached_buffer_max_bytes: Int = setting(1_048_588, MEDIUM, at_least(524_288), CLUSTER_WIDE)
    offset_metadata_max_bytes: Int = setting(4096, HIGH)
    offsets_retention_minutes: Int = setting(10_080, HIGH, at_least(1))
    offsets_retention_check_interval_ms: Long = setting(600_000, HIGH, at_least(1))
    group_min_session_timeout_ms: Int = setting(6000, MEDIUM)
    group_max_session_timeout_ms: Int = setting(1_800_000, MEDIUM)
    group_initial_rebalance_delay_ms: Int = setting(3000, MEDIUM)
    group_max_size: Int = setting(MAX_INT, MEDIUM, at_least(1))
    group_consumer_session_timeout_ms: Int = setting(45_000, MEDIUM, at_least(1))
    group_consumer_min_session_timeout_ms: Int = setting(45_000, MEDIUM, at_least(1))
    group_consumer_max_session_timeout_ms: Int = setting(60_000, MEDIUM, at_least(1))
    group_consumer_heartbeat_interval_ms: Int = setting(5000, MEDIUM, at_least(1))
    group_consumer_min_heartbeat_interval_ms: Int = setting(5000, MEDIUM, at_least(1))
    group_consumer_max_heartbeat_interval_ms: Int = setting(15_000, MEDIUM, at_least(1))
    group_consumer_max_size: Int = setting(MAX_INT, MEDIUM, at_least(1))
    group_consumer_assignors: List = setting(("uniform", "range"), MEDIUM, NON_EMPTY_LIST)
    group_consumer_migration_policy: String = setting(
        "bidirectional", MEDIUM, one_of("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL", ignore_case=True)
    )
    group_consumer_assignment_interval_ms: Int = setting(1000, MEDIUM, at_least(0), CLUSTER_WIDE)
    group_consumer_min_assignment_interval_ms: Int = setting(0, MEDIUM, at_least(0))
    group_consumer_max_assignment_interval_ms: Int = setting(15_000, MEDIUM, at_least(0))
    group_consumer_regex_refresh_interval_ms: Int = setting(600_000, MEDIUM, at_least(10_000), internal=True)
    group_share_session_timeout_ms: Int = setting(45_000, MEDIUM, at_least(1))
    group_share_min_session_timeout_ms: Int = setting(45_000, MEDIUM, at_least(1))
    group_share_max_session_timeout_ms: Int = setting(60_000, MEDIUM, at_least(1))
    group_share_heartbeat_interval_ms: Int = setting(5000, MEDIUM, at_least(1))
    group_share_min_heartbeat_interval_ms: Int = setting(5000, MEDIUM, at_least(1))
    group_share_max_heartbeat_interval_ms: Int = setting(15_000, MEDIUM, at_least(1))
    group_share_max_size: Int = setting(200, MEDIUM, between(1, 1000))
    group_share_assignors: List = setting(("simple",), MEDIUM, NON_EMPTY_LIST)
    group_share_assignment_interval_ms: Int = setting(1000, MEDIUM, at_least(0), CLUSTER_WIDE)
    group_share_min_assignment_interval_ms: Int = setting(0, MEDIUM, at_least(0))
    group_share_max_assignment_interval_ms: Int = setting(15_000, MEDIUM, at_least(0))
    group_share_initialize_retry_interval_ms: Int = setting(30_000, LOW, at_least(1), internal=True)
    group_streams_session_timeout_ms: Int = setting(45_000, MEDIUM, at_least(1))
    group_streams_min_session_timeout_ms: Int = setting(45_000, MEDIUM, at_least(1))
    group_streams_max_session_timeout_ms: Int = setting(60_000, MEDIUM, at_least(1))
    group_streams_heartbeat_interval_ms: Int = setting(5000, MEDIUM, at_least(1))
    group_streams_min_heartbeat_interval_ms: Int = setting(5000, MEDIUM, at_least(1))
    group_streams_max_heartbeat_interval_ms: Int = setting(15_000, MEDIUM, at_least(1))
    group_streams_max_size: Int = setting(MAX_INT, MEDIUM, at_least(1))
    group_streams_num_standby_replicas: Int = setting(0, MEDIUM, at_least(0))
    group_streams_max_standby_replicas: Int = setting(2, MEDIUM, at_least(0))
    group_streams_initial_rebalance_delay_ms: Int = setting(3000, MEDIUM, at_least(0))
    group_streams_assignment_interval_ms: Int = setting(1000, MEDIUM, at_least(0), CLUSTER_WIDE)
    group_streams_min_assignment_interval_ms: Int = setting(0, MEDIUM, at_least(0))
    group_streams_max_assignment_interval_ms: Int = setting(15_000, MEDIUM, at_least(0))
    group_streams_assignors: List = setting(("sticky",), MEDIUM, list_of(*STREAMS_ASSIGNORS, may_be_empty=False))
    group_streams_num_warmup_replicas: Int = setting(2, MEDIUM, at_least(0))
    group_streams_max_warmup_replicas: Int = setting(20, MEDIUM, at_least(0))
    group_streams_acceptable_recovery_lag: Long = setting(10_000, MEDIUM, at_least(0))
    group_streams_task_offset_interval_ms: Int = setting(60_000, MEDIUM, at_least(1))
    group_streams_min_task_offset_interval_ms: Int = setting(15_000, MEDIUM, at_least(1))
    group_streams_rack_aware_assignment_tags: List = setting((), MEDIUM, ANY_LIST)
    group_streams_topology_description_plugin_class: String | None = setting(
        None, MEDIUM, one_of("org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin")
    )

    # Compaction.
    log_cleaner_threads: Int = setting(1, MEDIUM, at_least(0), CLUSTER_WIDE)
    log_cleaner_io_max_bytes_per_second: Double = setting(1.7976931348623157e308, MEDIUM, None, CLUSTER_WIDE)
    log_cleaner_dedupe_buffer_size: Long = setting(134_217_728, MEDIUM, None, CLUSTER_WIDE)
    log_cleaner_io_buffer_size: Int = setting(524_288, MEDIUM, at_least(0), CLUSTER_WIDE)
    log_cleaner_io_buffer_load_factor: Double = setting(0.9, MEDIUM, None, CLUSTER_WIDE)
    log_cleaner_backoff_ms: Long = setting(15_000, MEDIUM, at_least(0), CLUSTER_WIDE)
    log_cleaner_min_cleanable_ratio: Double = setting(0.5, MEDIUM, between(0, 1), CLUSTER_WIDE)
    log_cleaner_enable: Boolean = setting(True, MEDIUM)
    log_cleaner_delete_retention_ms: Long = setting(86_400_000, MEDIUM, at_least(0), CLUSTER_WIDE)
    log_cleaner_min_compaction_lag_ms: Long = setting(0, MEDIUM, at_least(0), CLUSTER_WIDE)
    log_cleaner_max_compaction_lag_ms: Long = setting(MAX_LONG, MEDIUM, at_least(1), CLUSTER_WIDE)

    # Logs.
    num_partitions: Int = setting(1, MEDIUM, at_least(1))
    log_dir: List = setting(("/tmp/kafka-logs",), HIGH, NON_EMPTY_LIST)
    log_dirs: List | None = setting(None, HIGH, NON_EMPTY_LIST)
    cordoned_log_dirs: List = setting((), MEDIUM, ANY_LIST, PER_BROKER)
    log_segment_bytes: Int = setting(1_073_741_824, HIGH, at_least(1_048_576), CLUSTER_WIDE)
    log_roll_ms: Long | None = setting(None, HIGH, None, CLUSTER_WIDE)
    log_roll_hours: Int = setting(168, HIGH, at_least(1))
    log_roll_jitter_ms: Long | None = setting(None, HIGH, None, CLUSTER_WIDE)
    log_roll_jitter_hours: Int = setting(0, HIGH, at_least(0))
    log_retention_ms: Long | None = setting(None, HIGH, None, CLUSTER_WIDE)
    log_retention_minutes: Int | None = setting(None, HIGH)
    log_retention_hours: Int = setting(168, HIGH)
    log_retention_bytes: Long = setting(-1, HIGH, None, CLUSTER_WIDE)
    log_retention_check_interval_ms: Long = setting(300_000, MEDIUM, at_least(1))
    log_cleanup_policy: List = setting(("delete",), MEDIUM, CLEANUP_POLICY, CLUSTER_WIDE)
    log_index_size_max_bytes: Int = setting(10_485_760, MEDIUM, at_least(4), CLUSTER_WIDE)
    log_index_interval_bytes: Int = setting(4096, MEDIUM, at_least(0), CLUSTER_WIDE)
    log_flush_interval_messages: Long = setting(MAX_LONG, HIGH, at_least(1), CLUSTER_WIDE)
    log_segment_delete_delay_ms: Long = setting(60_000, HIGH, at_least(0), CLUSTER_WIDE)
    log_flush_scheduler_interval_ms: Long = setting(MAX_LONG, HIGH)
    log_flush_interval_ms: Long | None = setting(None, HIGH, None, CLUSTER_WIDE)
    log_flush_offset_checkpoint_interval_ms: Int = setting(60_000, HIGH, at_least(0))
    log_flush_start_offset_checkpoint_interval_ms: Int = setting(60_000, HIGH, at_least(0))
    log_preallocate: Boolean = setting(False, MEDIUM, None, CLUSTER_WIDE)
    num_recovery_threads_per_data_dir: Int = setting(2, HIGH, at_least(1), CLUSTER_WIDE)
    auto_create_topics_enable: Boolean = setting(True, HIGH)
    min_insync_replicas: Int = setting(1, HIGH, at_least(1), CLUSTER_WIDE)
    log_message_timestamp_type: String = setting("CreateTime", MEDIUM, TIMESTAMP_TYPE, CLUSTER_WIDE)
    log_message_timestamp_before_max_ms: Long = setting(MAX_LONG, MEDIUM, at_least(0), CLUSTER_WIDE)
    log_message_timestamp_after_max_ms: Long = setting(3_600_000, MEDIUM, at_least(0), CLUSTER_WIDE)
    create_topic_policy_class_name: Class | None = setting(None, LOW)
    alter_config_policy_class_name: Class | None = setting(None, LOW)
    log_dir_failure_timeout_ms: Long = setting(30_000, LOW, at_least(1))
    log_initial_task_delay_ms: Long = setting(30_000, LOW, at_least(0), internal=True)

    # Share groups.
    group_share_delivery_count_limit: Int = setting(5, MEDIUM, between(2, 10))
    group_share_max_delivery_count_limit: Int = setting(10, MEDIUM, between(5, 25))
    group_share_min_delivery_count_limit: Int = setting(2, MEDIUM, between(2, 5))
    group_share_record_lock_duration_ms: Int = setting(30_000, MEDIUM, between(1000, 3_600_000))
    group_share_min_record_lock_duration_ms: Int = setting(15_000, MEDIUM, between(1000, 30_000))
    group_share_max_record_lock_duration_ms: Int = setting(60_000, MEDIUM, between(30_000, 3_600_000))
    group_share_partition_max_record_locks: Int = setting(2000, MEDIUM, between(100, 10_000))
    group_share_max_partition_max_record_locks: Int = setting(4000, MEDIUM, between(2000, 10_000))
    group_share_min_partition_max_record_locks: Int = setting(100, MEDIUM, between(100, 2000))
    share_fetch_purgatory_purge_interval_requests: Int = setting(1000, MEDIUM)
    group_share_max_share_sessions: Int = setting(2000, MEDIUM, at_least(1))
    errors_deadletterqueue_topic_name_prefix: String = setting("dlq.", MEDIUM, None, CLUSTER_WIDE)
    errors_deadletterqueue_auto_create_topics_enable: Boolean = setting(False, MEDIUM, None, CLUSTER_WIDE)
    group_share_persister_class_name: String = setting(
        "org.apache.kafka.server.share.persister.DefaultStatePersister", MEDIUM, internal=True
    )

    # The share coordinator.
    share_coordinator_state_topic_num_partitions: Int = setting(50, HIGH, at_least(1))
    share_coordinator_state_topic_replication_factor: Short = setting(3, HIGH, at_least(1))
    share_coordinator_state_topic_min_isr: Short = setting(2, HIGH, at_least(1))
    share_coordinator_state_topic_segment_bytes: Int = setting(104_857_600, HIGH, at_least(1))
    share_coordinator_threads: Int = setting(1, MEDIUM, at_least(1))
    share_coordinator_snapshot_update_records_per_snapshot: Int = setting(500, MEDIUM, between(0, 500))
    share_coordinator_load_buffer_size: Int = setting(5_242_880, HIGH, at_least(1))
    share_coordinator_state_topic_compression_codec: Int = setting(0, HIGH)
    share_coordinator_append_linger_ms: Int = setting(-1, MEDIUM, at_least(-1))
    share_coordinator_write_timeout_ms: Int = setting(5000, HIGH, at_least(1))
    share_coordinator_state_topic_prune_interval_ms: Int = setting(300_000, LOW, at_least(1), internal=True)
    share_coordinator_cold_partition_snapshot_interval_ms: Int = setting(300_000, LOW, at_least(1), internal=True)
    share_coordinator_cached_buffer_max_bytes: Int = setting(1_048_588, MEDIUM, at_least(524_288), CLUSTER_WIDE)

    # Transactions and producers.
    transaction_state_log_min_isr: Int = setting(2, HIGH, at_least(1))
    transaction_state_log_load_buffer_size: Int = setting(5_242_880, HIGH, at_least(1))
    transaction_state_log_replication_factor: Short = setting(3, HIGH, at_least(1))
    transaction_state_log_num_partitions: Int = setting(50, HIGH, at_least(1))
    transaction_state_log_segment_bytes: Int = setting(104_857_600, HIGH, at_least(1))
    transaction_partition_verification_enable: Boolean = setting(True, LOW, None, CLUSTER_WIDE)
    producer_id_expiration_ms: Int = setting(86_400_000, LOW, at_least(1), CLUSTER_WIDE)
    producer_id_expiration_check_interval_ms: Int = setting(600_000, LOW, at_least(1), internal=True)
    transactional_id_expiration_ms: Int = setting(604_800_000, HIGH, at_least(1))
    transaction_max_timeout_ms: Int = setting(900_000, HIGH, at_least(1))
    transaction_abort_timed_out_transaction_cleanup_interval_ms: Int = setting(10_000, LOW, at_least(1))
    transaction_remove_expired_transaction_cleanup_interval_ms: Int = setting(3_600_000, LOW, at_least(1))
    transaction_two_phase_commit_enable: Boolean = setting(False, LOW)

    # The quorum.
    controller_quorum_voters: List = setting((), HIGH, ANY_LIST)
    controller_quorum_bootstrap_servers: List = setting((), HIGH, ANY_LIST)
    controller_quorum_election_timeout_ms: Int = setting(1000, HIGH, at_least(0))
    controller_quorum_fetch_timeout_ms: Int = setting(2000, HIGH, at_least(0))
    controller_quorum_election_backoff_max_ms: Int = setting(1000, HIGH, at_least(0))
    controller_quorum_append_linger_ms: Int = setting(25, MEDIUM, at_least(0))
    controller_quorum_request_timeout_ms: Int = setting(2000, MEDIUM, at_least(0))
    controller_quorum_retry_backoff_ms: Int = setting(20, LOW, at_least(0))
    controller_quorum_auto_join_enable: Boolean = setting(False, LOW)
    controller_quorum_fetch_snapshot_max_bytes: Int = setting(1_048_576, LOW, at_least(1))
    controller_quorum_fetch_max_bytes: Int = setting(1_048_576, LOW, at_least(1))

    # Metrics and telemetry.
    metrics_num_samples: Int = setting(2, LOW, at_least(1))
    metrics_sample_window_ms: Long = setting(30_000, LOW, at_least(1))
    metric_reporters: List = setting(("org.apache.kafka.common.metrics.JmxReporter",), LOW, ANY_LIST, CLUSTER_WIDE)
    metrics_recording_level: String = setting("INFO", LOW)
    kafka_metrics_reporters: List = setting((), LOW, ANY_LIST)
    kafka_metrics_polling_interval_secs: Int = setting(10, LOW, at_least(1))
    telemetry_max_bytes: Int = setting(1_048_576, LOW, at_least(1))

    # Quotas.
    quota_window_num: Int = setting(11, LOW, at_least(1))
    replication_quota_window_num: Int = setting(11, LOW, at_least(1))
    alter_log_dirs_replication_quota_window_num: Int = setting(11, LOW, at_least(1))
    controller_quota_window_num: Int = setting(11, LOW, at_least(1))
    quota_window_size_seconds: Int = setting(1, LOW, at_least(1))
    replication_quota_window_size_seconds: Int = setting(1, LOW, at_least(1))
    alter_log_dirs_replication_quota_window_size_seconds: Int = setting(1, LOW, at_least(1))
    controller_quota_window_size_seconds: Int = setting(1, LOW, at_least(1))
    client_quota_callback_class: Class | None = setting(None, LOW)

    # Security.
    connections_max_reauth_ms: Long = setting(0, MEDIUM)
    sasl_server_max_receive_size: Int = setting(524_288, MEDIUM)
    security_providers: String | None = setting(None, LOW)
    principal_builder_class: Class = setting(
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder", MEDIUM, None, PER_BROKER
    )
    ssl_client_auth: String = setting("none", MEDIUM, one_of("required", "requested", "none"), PER_BROKER)
    ssl_principal_mapping_rules: String = setting("DEFAULT", LOW)
    ssl_allow_dn_changes: Boolean = setting(False, LOW)
    ssl_allow_san_changes: Boolean = setting(False, LOW)
    ssl_protocol: String = setting("TLSv1.3", MEDIUM, None, PER_BROKER)
    ssl_provider: String | None = setting(None, MEDIUM, None, PER_BROKER)
    ssl_enabled_protocols: List = setting(("TLSv1.2", "TLSv1.3"), MEDIUM, ANY_LIST, PER_BROKER)
    ssl_keystore_type: String = setting("JKS", MEDIUM, None, PER_BROKER)
    ssl_keystore_location: String | None = setting(None, MEDIUM, None, PER_BROKER)
    ssl_keystore_password: Password | None = setting(None, MEDIUM, None, PER_BROKER)
    ssl_key_password: Password | None = setting(None, MEDIUM, None, PER_BROKER)
    ssl_keystore_key: Password | None = setting(None, MEDIUM, None, PER_BROKER)
    ssl_keystore_certificate_chain: Password | None = setting(None, MEDIUM, None, PER_BROKER)
    ssl_truststore_type: String = setting("JKS", MEDIUM, None, PER_BROKER)
    ssl_truststore_location: String | None = setting(None, MEDIUM, None, PER_BROKER)
    ssl_truststore_password: Password | None = setting(None, MEDIUM, None, PER_BROKER)
    ssl_truststore_certificates: Password | None = setting(None, MEDIUM, None, PER_BROKER)
    ssl_keymanager_algorithm: String = setting("SunX509", MEDIUM, None, PER_BROKER)
    ssl_trustmanager_algorithm: String = setting("PKIX", MEDIUM, None, PER_BROKER)
    ssl_endpoint_identification_algorithm: String = setting("https", LOW, None, PER_BROKER)
    ssl_secure_random_implementation: String | None = setting(None, LOW, None, PER_BROKER)
    ssl_cipher_suites: List = setting((), MEDIUM, ANY_LIST, PER_BROKER)
    ssl_engine_factory_class: Class | None = setting(None, LOW, None, PER_BROKER)
    sasl_mechanism_inter_broker_protocol: String = setting("GSSAPI", MEDIUM, None, PER_BROKER)
    sasl_enabled_mechanisms: List = setting(("GSSAPI",), MEDIUM, ANY_LIST, PER_BROKER)
    sasl_server_callback_handler_class: Class | None = setting(None, MEDIUM)
    sasl_kerberos_principal_to_local_rules: List = setting(("DEFAULT",), MEDIUM, ANY_LIST, PER_BROKER)
    sasl_jaas_config: Password | None = setting(None, MEDIUM, None, PER_BROKER)
    sasl_client_callback_handler_class: Class | None = setting(None, MEDIUM)
    sasl_login_class: Class | None = setting(None, MEDIUM)
    sasl_login_callback_handler_class: Class | None = setting(None, MEDIUM)
    sasl_kerberos_service_name: String | None = setting(None, MEDIUM, None, PER_BROKER)
    sasl_kerberos_kinit_cmd: String = setting("/usr/bin/kinit", MEDIUM, None, PER_BROKER)
    sasl_kerberos_ticket_renew_window_factor: Double = setting(0.8, MEDIUM, None, PER_BROKER)
    sasl_kerberos_ticket_renew_jitter: Double = setting(0.05, MEDIUM, None, PER_BROKER)
    sasl_kerberos_min_time_before_relogin: Long = setting(60_000, MEDIUM, None, PER_BROKER)
    sasl_login_refresh_window_factor: Double = setting(0.8, MEDIUM, None, PER_BROKER)
    sasl_login_refresh_window_jitter: Double = setting(0.05, MEDIUM, None, PER_BROKER)
    sasl_login_refresh_min_period_seconds: Short = setting(60, MEDIUM, None, PER_BROKER)
    sasl_login_refresh_buffer_seconds: Short = setting(300, MEDIUM, None, PER_BROKER)
    sasl_login_connect_timeout_ms: Int | None = setting(None, LOW)
    sasl_login_read_timeout_ms: Int | None = setting(None, LOW)
    sasl_login_retry_backoff_max_ms: Long = setting(10_000, LOW)
    sasl_login_retry_backoff_ms: Long = setting(100, LOW)
    sasl_oauthbearer_jwt_retriever_class: Class = setting(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever", MEDIUM
    )
    sasl_oauthbearer_jwt_validator_class: Class = setting(
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator", MEDIUM
    )
    sasl_oauthbearer_scope: String | None = setting(None, MEDIUM)
    sasl_oauthbearer_client_credentials_client_id: String | None = setting(None, MEDIUM)
    sasl_oauthbearer_client_credentials_client_secret: Password | None = setting(None, MEDIUM)
    sasl_oauthbearer_assertion_algorithm: String = setting("RS256", MEDIUM, one_of("ES256", "RS256", ignore_case=True))
    sasl_oauthbearer_assertion_claim_aud: String | None = setting(None, MEDIUM)
    sasl_oauthbearer_assertion_claim_exp_seconds: Int = setting(300, LOW, between(0, 86_400))
    sasl_oauthbearer_assertion_claim_iss: String | None = setting(None, MEDIUM)
    sasl_oauthbearer_assertion_claim_jti_include: Boolean = setting(False, MEDIUM)
    sasl_oauthbearer_assertion_claim_nbf_seconds: Int = setting(60, LOW, between(0, 3600))
    sasl_oauthbearer_assertion_claim_sub: String | None = setting(None, MEDIUM)
    sasl_oauthbearer_assertion_file: String | None = setting(None, MEDIUM)
    sasl_oauthbearer_assertion_private_key_file: String | None = setting(None, MEDIUM)
    sasl_oauthbearer_assertion_private_key_passphrase: Password | None = setting(None, MEDIUM)
    sasl_oauthbearer_assertion_template_file: String | None = setting(None, MEDIUM)
    sasl_oauthbearer_scope_claim_name: String = setting("scope", LOW)
    sasl_oauthbearer_sub_claim_name: String = setting("sub", LOW)
    sasl_oauthbearer_token_endpoint_url: String | None = setting(None, MEDIUM)
    sasl_oauthbearer_jwks_endpoint_url: String | None = setting(None, MEDIUM)
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Long = setting(3_600_000, LOW)
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: Long = setting(100, LOW)
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: Long = setting(10_000, LOW)
    sasl_oauthbearer_clock_skew_seconds: Int = setting(30, LOW)
    sasl_oauthbearer_expected_audience: List = setting((), HIGH, ANY_LIST)
    sasl_oauthbearer_expected_issuer: String | None = setting(None, HIGH)

    # Delegation tokens.
    delegation_token_secret_key: Password | None = setting(None, MEDIUM)
    delegation_token_max_lifetime_ms: Long = setting(604_800_000, MEDIUM, at_least(1))
    delegation_token_expiry_time_ms: Long = setting(86_400_000, MEDIUM, at_least(1))
    delegation_token_expiry_check_interval_ms: Long = setting(3_600_000, LOW, at_least(1))

    # Transactions: retries of the partition check.
    add_partitions_to_txn_retry_backoff_max_ms: Int = setting(100, HIGH, at_least(0))
    add_partitions_to_txn_retry_backoff_ms: Int = setting(20, HIGH, at_least(1))


class DynamicBrokerSettings(Settings):
    """Settings that exist only as dynamic ones: a server.properties does not have them."""

    __slots__ = ()

    leader_replication_throttled_rate: Long = setting(MAX_LONG, MEDIUM, at_least(0), CLUSTER_WIDE)
    follower_replication_throttled_rate: Long = setting(MAX_LONG, MEDIUM, at_least(0), CLUSTER_WIDE)
    replica_alter_log_dirs_io_max_bytes_per_second: Long = setting(MAX_LONG, MEDIUM, at_least(0), CLUSTER_WIDE)
