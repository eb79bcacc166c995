"""The settings of every client by name and type, so that an editor completes them and a type checker knows them:
`Producer(linger_ms=5)`. Their meaning, bounds and defaults are in the `...Config` classes, which also take values as
text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

from ottla.client.config import ErrorCallback, StatisticsCallback
from ottla.client.producer_config import Serializer
from ottla.client.security_config import TokenProvider


class ClientSettings(TypedDict, total=False):
    """Settings of all clients."""

    security_protocol: str
    ssl_truststore_type: str
    ssl_truststore_location: str | None
    ssl_truststore_password: str | None
    ssl_truststore_certificates: str | None
    ssl_keystore_type: str
    ssl_keystore_location: str | None
    ssl_keystore_password: str | None
    ssl_keystore_key: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_key_password: str | None
    ssl_ca_location: str | None
    ssl_certificate_location: str | None
    ssl_key_location: str | None
    ssl_endpoint_identification_algorithm: str
    ssl_enabled_protocols: str | Sequence[str]
    sasl_mechanism: str
    sasl_kerberos_service_name: str | None
    sasl_kerberos_principal: str | None
    sasl_kerberos_keytab: str | None
    sasl_jaas_config: str | None
    sasl_username: str | None
    sasl_password: str | None
    sasl_oauthbearer_token_provider: TokenProvider | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_header_urlencode: bool
    sasl_oauthbearer_jwt_retriever_class: str
    sasl_oauthbearer_assertion_file: str | None
    sasl_oauthbearer_assertion_private_key_file: str | None
    sasl_oauthbearer_assertion_private_key_passphrase: str | None
    sasl_oauthbearer_assertion_algorithm: str
    sasl_oauthbearer_assertion_template_file: str | None
    sasl_oauthbearer_assertion_claim_iss: str | None
    sasl_oauthbearer_assertion_claim_sub: str | None
    sasl_oauthbearer_assertion_claim_aud: str | None
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    sasl_oauthbearer_assertion_claim_jti_include: bool
    bootstrap_servers: str | Sequence[str]
    client_id: str
    client_rack: str
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    connections_max_idle_ms: int
    metadata_max_age_ms: int
    metadata_recovery_strategy: str
    metadata_recovery_rebootstrap_trigger_ms: int
    metadata_cluster_check_enable: bool
    send_buffer_bytes: int
    receive_buffer_bytes: int
    on_error: ErrorCallback | None
    on_statistics: StatisticsCallback | None
    statistics_interval_ms: int


class AdminSettings(ClientSettings, total=False):
    """Settings of an admin client."""

    default_api_timeout_ms: int
    retries: int


class ProducerSettings(ClientSettings, total=False):
    """Settings of a producer."""

    acks: int | str
    enable_idempotence: bool
    retries: int
    max_in_flight_requests_per_connection: int
    batch_size: int
    linger_ms: int
    buffer_memory: int
    max_block_ms: int
    delivery_timeout_ms: int
    max_request_size: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    partitioner: str | Callable[[str, bytes | None, int], int]
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_rack_aware: bool
    metadata_max_idle_ms: int
    transactional_id: str | None
    transaction_timeout_ms: int
    key_serializer: Serializer | None
    value_serializer: Serializer | None


class ConsumerSettings(ClientSettings, total=False):
    """Settings of a consumer, except its deserializers: they decide the types of its records."""

    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
    partition_assignment_strategy: str | Sequence[str]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    auto_offset_reset: str
    isolation_level: str
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    check_crcs: bool
    exclude_internal_topics: bool
    allow_auto_create_topics: bool
    default_api_timeout_ms: int


class ShareConsumerSettings(ClientSettings, total=False):
    """Settings of a share consumer, except its deserializers."""

    group_id: str
    share_acknowledgement_mode: str
    share_acquire_mode: str
    max_poll_interval_ms: int
    max_poll_records: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    check_crcs: bool
    allow_auto_create_topics: bool
    default_api_timeout_ms: int
