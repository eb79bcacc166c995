"""What metadata records add up to."""

from __future__ import annotations

import pytest

from ottla.cluster import ClusterImage, PartitionImage, ReplayError, encode_record, snapshot
from ottla.wire import Message
from ottla.wire.messages.records.abort_transaction_record import AbortTransactionRecord
from ottla.wire.messages.records.access_control_entry_record import AccessControlEntryRecord
from ottla.wire.messages.records.begin_transaction_record import BeginTransactionRecord
from ottla.wire.messages.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.records.clear_elr_record import ClearElrRecord
from ottla.wire.messages.records.client_quota_record import ClientQuotaRecord, EntityData
from ottla.wire.messages.records.config_record import ConfigRecord
from ottla.wire.messages.records.delegation_token_record import DelegationTokenRecord
from ottla.wire.messages.records.end_transaction_record import EndTransactionRecord
from ottla.wire.messages.records.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.records.fence_broker_record import FenceBrokerRecord
from ottla.wire.messages.records.no_op_record import NoOpRecord
from ottla.wire.messages.records.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.records.partition_record import PartitionRecord
from ottla.wire.messages.records.producer_ids_record import ProducerIdsRecord
from ottla.wire.messages.records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from ottla.wire.messages.records.register_controller_record import RegisterControllerRecord
from ottla.wire.messages.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from ottla.wire.messages.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from ottla.wire.messages.records.remove_topic_record import RemoveTopicRecord
from ottla.wire.messages.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from ottla.wire.messages.records.topic_record import TopicRecord
from ottla.wire.messages.records.unfence_broker_record import UnfenceBrokerRecord
from ottla.wire.messages.records.unregister_broker_record import UnregisterBrokerRecord
from ottla.wire.messages.records.user_scram_credential_record import UserScramCredentialRecord
from ottla.wire.messages.records.zk_migration_state_record import ZkMigrationStateRecord

TOPIC = b"t" * 16
DIRECTORY = b"d" * 16


def topic(name: str = "orders", id: bytes = TOPIC, partitions: int = 1) -> list[Message]:
    return [
        TopicRecord(name=name, topic_id=id),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=id,
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[DIRECTORY],
            )
            for index in range(partitions)
        ),
    ]


def broker(epoch: int = 5) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=b"i" * 16,
        broker_epoch=epoch,
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092)],
        features=[BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
        rack=None,
        log_dirs=[DIRECTORY],
    )


def everything() -> list[Message]:
    """Records of every kind that leaves something behind."""
    return [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="group.version", feature_level=1),
        broker(),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, cordoned_log_dirs=[DIRECTORY]),
        RegisterControllerRecord(controller_id=1, incarnation_id=b"c" * 16),
        *topic(partitions=3),
        *topic("payments", b"p" * 16),
        PartitionChangeRecord(
            partition_id=0, topic_id=TOPIC, isr=[], leader=-1, eligible_leader_replicas=[1], last_known_elr=[1]
        ),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1000"),
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
        ClientQuotaRecord(
            entity=[
                EntityData(entity_type="user", entity_name="u"),
                EntityData(entity_type="client-id", entity_name=None),
            ],
            key="producer_byte_rate",
            value=1024.0,
        ),
        ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=2000),
        AccessControlEntryRecord(id=b"a" * 16, resource_type=2, resource_name="orders", principal="User:u", host="*"),
        UserScramCredentialRecord(
            name="bob", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        ),
        DelegationTokenRecord(owner="User:u", requester="User:u", token_id="token"),
        ZkMigrationStateRecord(zk_migration_state=0),
        NoOpRecord(),
    ]


def image_of(*records: Message) -> ClusterImage:
    image = ClusterImage("cluster")
    image.apply(records)
    return image


def same(first: ClusterImage, second: ClusterImage) -> bool:
    return all(getattr(first, name) == getattr(second, name) for name in ClusterImage.__slots__)


def test_topics_are_found_by_name_and_by_id() -> None:
    image = image_of(*topic(partitions=2))
    assert image.topics_by_name["orders"] is image.topics_by_id[TOPIC]
    assert image.partition("orders", 1) == PartitionImage(
        replicas=(1,),
        isr=(1,),
        removing=(),
        adding=(),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=(DIRECTORY,),
    )
    assert image.partition("orders", 2) is None
    assert image.partition("nope", 0) is None


def test_a_new_leader_raises_the_leader_epoch_and_any_change_the_partition_epoch() -> None:
    image = image_of(*topic())
    image.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[1]))
    changed = image.topics_by_id[TOPIC].partitions[0]
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (1, 0, 1)
    image.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=1))
    changed = image.topics_by_id[TOPIC].partitions[0]
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (1, 1, 2)


def test_a_partition_that_a_reader_kept_does_not_change_under_it() -> None:
    image = image_of(*topic())
    kept = image.topics_by_id[TOPIC].partitions[0]
    image.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=-1, isr=[]))
    assert kept.leader == 1


def test_old_records_without_directories_leave_them_to_be_migrated() -> None:
    image = image_of(
        TopicRecord(name="t", topic_id=TOPIC), PartitionRecord(topic_id=TOPIC, partition_id=0, replicas=[1, 2])
    )
    assert image.topics_by_id[TOPIC].partitions[0].directories == (bytes(16), bytes(16))


def test_deleting_a_topic_deletes_its_configs() -> None:
    image = image_of(*everything(), RemoveTopicRecord(topic_id=TOPIC))
    assert list(image.topics_by_name) == ["payments"]
    assert (2, "orders") not in image.configs


def test_an_eligibility_is_cleared_for_one_topic_or_for_all() -> None:
    for name in ("orders", ""):
        image = image_of(*everything(), ClearElrRecord(topic_name=name))
        assert image.topics_by_id[TOPIC].partitions[0].elr == ()
        assert image.topics_by_id[TOPIC].partitions[0].last_known_elr == ()


def test_brokers_are_fenced_and_unfenced_and_shut_down() -> None:
    image = image_of(broker())
    assert image.brokers[1].is_fenced
    image.replay(UnfenceBrokerRecord(id=1, epoch=5))
    assert image.brokers[1].is_active
    image.replay(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, in_controlled_shutdown=1))
    assert not image.brokers[1].is_active and not image.brokers[1].is_fenced
    image.replay(FenceBrokerRecord(id=1, epoch=5))
    assert image.brokers[1].is_fenced
    image.replay(broker(epoch=9))
    assert image.brokers[1].epoch == 9 and not image.brokers[1].is_in_controlled_shutdown
    image.replay(UnregisterBrokerRecord(broker_id=1, broker_epoch=9))
    assert image.brokers == {}


def test_what_is_removed_is_gone() -> None:
    image = image_of(
        *everything(),
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value=None),
        ClientQuotaRecord(
            entity=[
                EntityData(entity_type="client-id", entity_name=None),
                EntityData(entity_type="user", entity_name="u"),
            ],
            key="producer_byte_rate",
            remove=True,
        ),
        RemoveAccessControlEntryRecord(id=b"a" * 16),
        RemoveUserScramCredentialRecord(name="bob", mechanism=1),
        RemoveDelegationTokenRecord(token_id="token"),
        FeatureLevelRecord(name="group.version", feature_level=0),
    )
    assert list(image.configs) == [(2, "orders")]
    assert image.client_quotas == {} and image.acls == {} and image.scram == {} and image.delegation_tokens == {}
    assert image.features == {"metadata.version": 30}


@pytest.mark.parametrize(
    "record",
    [
        TopicRecord(name="orders", topic_id=b"x" * 16),
        TopicRecord(name="other", topic_id=TOPIC),
        PartitionRecord(topic_id=b"x" * 16),
        PartitionChangeRecord(topic_id=TOPIC, partition_id=7),
        RemoveTopicRecord(topic_id=b"x" * 16),
        ClearElrRecord(topic_name="nope"),
        UnregisterBrokerRecord(broker_id=2, broker_epoch=5),
        FenceBrokerRecord(id=1, epoch=4),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=3),
        RemoveAccessControlEntryRecord(id=b"x" * 16),
        FeatureLevelRecord(name="metadata.version", feature_level=34),
        EndTransactionRecord(),
        AbortTransactionRecord(),
    ],
)
def test_a_record_that_contradicts_the_others_is_refused(record: Message) -> None:
    image = image_of(*everything())
    with pytest.raises(ReplayError):
        image.replay(record)


def test_a_transaction_takes_effect_at_its_end() -> None:
    image = image_of(BeginTransactionRecord(name="big"), *topic())
    assert image.is_in_transaction and image.topics_by_name == {}
    with pytest.raises(ReplayError):
        image.replay(BeginTransactionRecord())
    changes = image.apply([EndTransactionRecord()])
    assert list(image.topics_by_name) == ["orders"]
    assert list(changes.topics_created) == [TOPIC]


def test_an_aborted_transaction_leaves_nothing() -> None:
    image = image_of(BeginTransactionRecord(), *topic(), AbortTransactionRecord(reason="Controller failover"))
    assert not image.is_in_transaction and image.topics_by_name == {}


def test_a_snapshot_builds_the_same_image() -> None:
    image = image_of(*everything())
    twin = image_of(*snapshot.snapshot_records(image))
    assert same(image, twin)
    for record in snapshot.snapshot_records(image):
        encode_record(record)


def test_a_snapshot_says_only_what_its_metadata_version_can() -> None:
    image = image_of(FeatureLevelRecord(name="metadata.version", feature_level=7), broker(), *topic())
    records = [encode_record(record, 7) for record in snapshot.snapshot_records(image)]
    assert len(records) == 4


def test_a_copy_goes_its_own_way() -> None:
    image = image_of(*everything())
    twin = image.copy()
    assert same(image, twin)
    twin.apply(
        [RemoveTopicRecord(topic_id=TOPIC), ConfigRecord(resource_type=4, resource_name="", name="a", value="1")]
    )
    assert "orders" in image.topics_by_name and "a" not in image.configs[4, ""]


def test_changes_say_what_was_touched() -> None:
    image = ClusterImage()
    changes = image.apply(everything())
    assert list(changes.topics_created) == [TOPIC, b"p" * 16]
    assert changes.partitions_changed[TOPIC, 0] is None
    assert list(changes.configs_changed) == [(2, "orders"), (4, "")]
    assert list(changes.brokers_changed) == [1] and list(changes.controllers_changed) == [1]
    assert list(changes.client_quotas_changed) == [(("client-id", None), ("user", "u"))]
    assert changes.are_producer_ids_changed
    before = image.topics_by_id[TOPIC].partitions[0]
    changes = image.apply(
        [
            PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=1, isr=[1]),
            PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=[1]),
        ]
    )
    assert changes.partitions_changed == {(TOPIC, 0): before}
    changes = image.apply([RemoveTopicRecord(topic_id=TOPIC)])
    assert changes.topics_deleted[TOPIC].name == "orders"
    assert (2, "orders") in changes.configs_changed


def test_a_topic_that_comes_and_goes_leaves_no_trace_in_the_changes() -> None:
    changes = ClusterImage().apply([*topic(), RemoveTopicRecord(topic_id=TOPIC)])
    assert not changes.topics_created and not changes.topics_deleted and not changes.partitions_changed


def test_a_snapshot_replaces_what_was_known_and_says_what_that_touched() -> None:
    image = image_of(*topic("gone", b"g" * 16), *topic(), broker())
    brokers = image.brokers
    version = FeatureLevelRecord(name="metadata.version", feature_level=30)
    there = image_of(version, *topic(partitions=2), broker(epoch=7))
    changes = image.replace(snapshot.snapshot_records(there))
    assert same(image, there)
    assert [deleted.name for deleted in changes.topics_deleted.values()] == ["gone"]
    assert changes.partitions_changed == {(TOPIC, 1): None}
    assert brokers is image.brokers and list(changes.brokers_changed) == [broker().broker_id]
    assert not image.replace(snapshot.snapshot_records(there)).brokers_changed
