"""The controller of a Kafka cluster: one place that decides all metadata.

A shard in the sense of `ottla.machine`: a command looks at the image and returns a Decision; `replay` applies a record.
Commands take the whole request, because two decisions do not see each other's records until they are replayed. A
request that cannot be decided at all raises KafkaError; an error of one part is in the reply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random

from ottla.cluster import ClusterImage, features
from ottla.config import BrokerConfig
from ottla.controller import (
    acls,
    brokers,
    configs,
    delegation_tokens,
    isr,
    producer_ids,
    quotas,
    reassignments,
    scram,
    topics,
)
from ottla.controller import features as feature_levels
from ottla.controller.producer_ids import ProducerIdBlock
from ottla.controller.topics import Charge
from ottla.controller.view import View
from ottla.machine import Decision
from ottla.security.principal import Principal
from ottla.wire import Message
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.records.abort_transaction_record import AbortTransactionRecord
from ottla.wire.messages.records.begin_transaction_record import BeginTransactionRecord
from ottla.wire.messages.records.config_record import ConfigRecord
from ottla.wire.messages.records.end_transaction_record import EndTransactionRecord
from ottla.wire.messages.records.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


class Controller:
    """The active controller. It owns the image it is given."""

    __slots__ = ("_view",)

    def __init__(self, image: ClusterImage, *, rng: Random, config: BrokerConfig) -> None:
        self._view = View(image, rng, config)

    @property
    def image(self) -> ClusterImage:
        """The metadata with every decided record applied, also those that are not durable yet."""
        return self._view.image

    def replay(self, record: Message) -> None:
        self.apply((record,))

    def apply(self, records: Iterable[Message]) -> None:
        """Replay many records, for example those of a decision."""
        self._view.replayed(self._view.image.apply(records))

    def activate(self, bootstrap_records: Iterable[Message]) -> Decision[None]:
        """The first records of a new leader: the bootstrap records if the log is empty, and the end of a metadata
        transaction that the last leader left open.
        """
        image = self._view.image
        records: list[Message] = []
        if image.is_in_transaction:
            records.append(AbortTransactionRecord(reason="Controller failover"))
        if features.METADATA_VERSION not in image.features:
            beginning = list(bootstrap_records)
            levels = {
                record.name: record.feature_level for record in beginning if isinstance(record, FeatureLevelRecord)
            }
            if levels.get(features.ELIGIBLE_LEADER_REPLICAS_VERSION, 0) >= 1 and not any(
                isinstance(record, ConfigRecord) and record.name == feature_levels.MIN_INSYNC_REPLICAS
                for record in beginning
            ):
                beginning += feature_levels.min_insync_replicas_records(self._view)
            if features.supports_metadata_transactions(levels.get(features.METADATA_VERSION, 0)):
                beginning = [BeginTransactionRecord(name="Bootstrap records"), *beginning, EndTransactionRecord()]
            records += beginning
        return Decision(records, None)

    def create_topics(
        self, request: CreateTopicsRequest, *, charge: Charge | None = None, with_configs: bool = True
    ) -> Decision[CreateTopicsResponse]:
        return topics.create_topics(self._view, request, charge, with_configs=with_configs)

    def delete_topics(
        self, request: DeleteTopicsRequest, *, charge: Charge | None = None
    ) -> Decision[DeleteTopicsResponse]:
        return topics.delete_topics(self._view, request, charge)

    def create_partitions(
        self, request: CreatePartitionsRequest, *, charge: Charge | None = None
    ) -> Decision[CreatePartitionsResponse]:
        return topics.create_partitions(self._view, request, charge)

    def alter_partition(self, request: AlterPartitionRequest) -> Decision[AlterPartitionResponse]:
        return isr.alter_partition(self._view, request)

    def elect_leaders(self, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
        return reassignments.elect_leaders(self._view, request)

    def balance_leaders(self) -> Decision[bool]:
        return reassignments.balance_leaders(self._view)

    def elect_unclean_leaders(self) -> Decision[bool]:
        return reassignments.elect_unclean_leaders(self._view)

    def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> Decision[AlterPartitionReassignmentsResponse]:
        return reassignments.alter_partition_reassignments(self._view, request)

    def assign_replicas_to_dirs(self, broker_id: int, assignments: Mapping[tuple[bytes, int], bytes]) -> Decision[None]:
        return topics.assign_replicas_to_dirs(self._view, broker_id, assignments)

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> Decision[IncrementalAlterConfigsResponse]:
        return configs.incremental_alter_configs(self._view, request)

    def alter_configs(self, request: AlterConfigsRequest) -> Decision[AlterConfigsResponse]:
        return configs.alter_configs(self._view, request)

    def alter_client_quotas(self, request: AlterClientQuotasRequest) -> Decision[AlterClientQuotasResponse]:
        return quotas.alter_client_quotas(self._view, request)

    def alter_user_scram_credentials(
        self, request: AlterUserScramCredentialsRequest
    ) -> Decision[AlterUserScramCredentialsResponse]:
        return scram.alter_user_scram_credentials(self._view, request)

    def create_delegation_token(
        self, request: CreateDelegationTokenRequest, requester: Principal, timestamp: int
    ) -> Decision[CreateDelegationTokenResponse]:
        return delegation_tokens.create_delegation_token(self._view, request, requester, timestamp)

    def renew_delegation_token(
        self, request: RenewDelegationTokenRequest, principal: Principal, timestamp: int
    ) -> Decision[RenewDelegationTokenResponse]:
        return delegation_tokens.renew_delegation_token(self._view, request, principal, timestamp)

    def expire_delegation_token(
        self, request: ExpireDelegationTokenRequest, principal: Principal, timestamp: int
    ) -> Decision[ExpireDelegationTokenResponse]:
        return delegation_tokens.expire_delegation_token(self._view, request, principal, timestamp)

    def remove_expired_tokens(self, timestamp: int) -> Decision[bool]:
        return delegation_tokens.remove_expired_tokens(self._view, timestamp)

    def create_acls(self, request: CreateAclsRequest) -> Decision[CreateAclsResponse]:
        return acls.create_acls(self._view, request)

    def delete_acls(self, request: DeleteAclsRequest) -> Decision[DeleteAclsResponse]:
        return acls.delete_acls(self._view, request)

    def update_features(
        self, request: UpdateFeaturesRequest, *, kraft_version: int = 0
    ) -> Decision[UpdateFeaturesResponse]:
        """`kraft_version` is the quorum's present level; the caller raises it if the reply allows that."""
        return feature_levels.update_features(self._view, request, kraft_version)

    def register_broker(self, request: BrokerRegistrationRequest, *, broker_epoch: int) -> Decision[int]:
        """`broker_epoch` is the offset of the next metadata record; the reply is the broker's new epoch."""
        return brokers.register_broker(self._view, request, broker_epoch)

    def unfence(self, broker_id: int, *, cordoned_log_dirs: tuple[bytes, ...] = ()) -> Decision[None]:
        return brokers.unfence(self._view, broker_id, cordoned_log_dirs)

    def shut_down(self, broker_id: int) -> Decision[None]:
        """The broker asks for a controlled shutdown. The caller fences it when that is done."""
        return brokers.shut_down(self._view, broker_id)

    def fence(self, broker_id: int) -> Decision[None]:
        return brokers.fence(self._view, broker_id)

    def unregister_broker(self, broker_id: int) -> Decision[None]:
        return brokers.unregister_broker(self._view, broker_id)

    def heartbeat(
        self, request: BrokerHeartbeatRequest, *, is_handover_known: bool
    ) -> Decision[BrokerHeartbeatResponse]:
        """`is_handover_known`: whether every other broker has the metadata in which this one began to shut down."""
        return brokers.heartbeat(self._view, request, is_handover_known=is_handover_known)

    def unregister_controller(self, controller_id: int) -> Decision[None]:
        return brokers.unregister_controller(self._view, controller_id)

    def register_controller(self, request: ControllerRegistrationRequest) -> Decision[None]:
        return brokers.register_controller(self._view, request)

    def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> Decision[ProducerIdBlock]:
        return producer_ids.allocate_producer_ids(self._view, broker_id, broker_epoch)
