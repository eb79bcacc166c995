"""What an operator reads of metadata records: lines for a small cluster's life, and sums for a large one's."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ottla.cluster import ClusterImage, snapshot
from ottla.cluster.events import MAX_LINES, Event, events
from ottla.wire import Message
from ottla.wire.messages.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.wire.messages.records.client_quota_record import ClientQuotaRecord, EntityData
from ottla.wire.messages.records.config_record import ConfigRecord
from ottla.wire.messages.records.feature_level_record import FeatureLevelRecord
from ottla.wire.messages.records.fence_broker_record import FenceBrokerRecord
from ottla.wire.messages.records.no_op_record import NoOpRecord
from ottla.wire.messages.records.partition_change_record import PartitionChangeRecord
from ottla.wire.messages.records.partition_record import PartitionRecord
from ottla.wire.messages.records.producer_ids_record import ProducerIdsRecord
from ottla.wire.messages.records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from ottla.wire.messages.records.register_controller_record import RegisterControllerRecord
from ottla.wire.messages.records.remove_topic_record import RemoveTopicRecord
from ottla.wire.messages.records.topic_record import TopicRecord
from ottla.wire.messages.records.unfence_broker_record import UnfenceBrokerRecord
from ottla.wire.messages.records.unregister_broker_record import UnregisterBrokerRecord
from ottla.wire.messages.records.user_scram_credential_record import UserScramCredentialRecord
from tests.unit.cluster.test_image import everything

ORDERS = b"o" * 16
DIRECTORIES = [b"d" * 16] * 3


class Cluster:
    """Records go in, lines come out."""

    def __init__(self) -> None:
        self.image = ClusterImage()

    def events(self, *records: Message) -> list[Event]:
        return events(self.image.apply(records), self.image)

    def lines(self, *records: Message) -> list[str]:
        return [event.text for event in self.events(*records)]


def broker(id: int, epoch: int, rack: str | None = None) -> RegisterBrokerRecord:
    listener = BrokerEndpoint(name="PLAINTEXT", host=f"host-{id}", port=9092)
    return RegisterBrokerRecord(
        broker_id=id, incarnation_id=bytes(16), broker_epoch=epoch, end_points=[listener], rack=rack
    )


def topic(count: int, name: str = "orders", id: bytes = ORDERS) -> list[Message]:
    return [
        TopicRecord(name=name, topic_id=id),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=id,
                replicas=[1, 2, 3],
                isr=[1, 2, 3],
                leader=1,
                leader_epoch=0,
                directories=DIRECTORIES,
            )
            for index in range(count)
        ),
    ]


def change(index: int, isr: Iterable[int] | None = None, leader: int = -2, **fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(
        partition_id=index,
        topic_id=ORDERS,
        isr=None if isr is None else list(isr),
        leader=leader,
        **fields,  # type: ignore[arg-type]
    )


def config(name: str, value: str | None, kind: int = 2, resource: str = "orders") -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def test_the_life_of_a_small_cluster() -> None:
    cluster = Cluster()
    assert cluster.lines(
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="group.version", feature_level=1),
        RegisterControllerRecord(controller_id=1, incarnation_id=bytes(16)),
        broker(1, epoch=5, rack="r1"),
        broker(2, epoch=6),
    ) == [
        "features: metadata.version=30, group.version=1",
        "controller 1 registered (no listeners)",
        "broker 1 registered (epoch 5, PLAINTEXT://host-1:9092, rack r1)",
        "broker 2 registered (epoch 6, PLAINTEXT://host-2:9092)",
    ]
    assert cluster.lines(UnfenceBrokerRecord(id=1, epoch=5)) == ["broker 1 unfenced (epoch 5)"]
    assert cluster.lines(*topic(4), config("retention.ms", "60000")) == [
        "topic orders created: 4 partitions, replication factor 3, retention.ms=60000"
    ]
    assert cluster.lines(change(3, [1, 2])) == [
        "partition orders-3: ISR shrank from [1, 2, 3] to [1, 2] (leader 1, epoch 0)"
    ]
    assert cluster.lines(change(3, [1, 2, 3])) == [
        "partition orders-3: ISR grew from [1, 2] to [1, 2, 3] (leader 1, epoch 0)"
    ]
    assert cluster.lines(FenceBrokerRecord(id=1, epoch=5), change(0, [2, 3], leader=2)) == [
        "broker 1 fenced (epoch 5)",
        "partition orders-0: leader changed from 1 to 2, ISR shrank from [1, 2, 3] to [2, 3] (leader 2, epoch 1)",
    ]
    assert cluster.lines(change(0, [], leader=-1)) == [
        "partition orders-0: leader changed from 2 to none, ISR shrank from [2, 3] to [] (leader none, epoch 2)"
    ]
    assert cluster.lines(change(0, [3], leader=3, leader_recovery_state=1)) == [
        "partition orders-0: leader changed from none to 3 by an unclean election, ISR grew from [] to [3] "
        "(leader 3, epoch 3)"
    ]
    assert cluster.lines(UnregisterBrokerRecord(broker_id=2, broker_epoch=6)) == ["broker 2 unregistered"]
    assert cluster.lines(RemoveTopicRecord(topic_id=ORDERS)) == ["topic orders deleted: 4 partitions"]


def test_a_broker_that_starts_again_registers_and_one_that_stops_says_so() -> None:
    cluster = Cluster()
    cluster.lines(broker(1, epoch=5), UnfenceBrokerRecord(id=1, epoch=5))
    shutdown = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, in_controlled_shutdown=1)
    assert cluster.lines(shutdown) == ["broker 1 began its controlled shutdown (epoch 5)"]
    assert cluster.lines(broker(1, epoch=9), UnfenceBrokerRecord(id=1, epoch=9)) == [
        "broker 1 registered (epoch 9, PLAINTEXT://host-1:9092)",
        "broker 1 unfenced (epoch 9)",
    ]


def test_the_log_dirs_of_a_broker() -> None:
    cluster = Cluster()
    dirs = [b"1" * 16, b"2" * 16]
    registered = broker(1, epoch=5)
    registered.log_dirs = dirs
    cluster.lines(registered, UnfenceBrokerRecord(id=1, epoch=5))
    failed = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, log_dirs=dirs[:1])
    assert cluster.lines(failed) == ["broker 1: 1 log dir online, were 2"]
    cordoned = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, cordoned_log_dirs=dirs[:1])
    assert cluster.lines(cordoned) == ["broker 1: 1 log dir cordoned"]


def test_a_reassignment() -> None:
    cluster = Cluster()
    cluster.lines(*topic(1))
    began = change(0, adding_replicas=[4], removing_replicas=[1], replicas=[4, 2, 3, 1], directories=[b"d" * 16] * 4)
    assert cluster.lines(began) == [
        "partition orders-0: reassignment began: adding [4], removing [1] (leader 1, epoch 0)"
    ]
    ended = change(
        0, [2, 3, 4], leader=4, adding_replicas=[], removing_replicas=[], replicas=[4, 2, 3], directories=DIRECTORIES
    )
    assert cluster.lines(ended) == [
        "partition orders-0: leader changed from 1 to 4, ISR changed from [1, 2, 3] to [2, 3, 4], "
        "reassignment ended: replicas are [4, 2, 3] (leader 4, epoch 1)"
    ]


def test_partitions_that_are_added() -> None:
    cluster = Cluster()
    cluster.lines(*topic(2))
    assert cluster.lines(*topic(5)[3:]) == ["topic orders: 3 partitions added, 5 now"]


def test_a_topic_of_ten_thousand_partitions_is_one_line() -> None:
    assert Cluster().lines(*topic(10_000)) == ["topic orders created: 10000 partitions, replication factor 3"]


def test_thousands_of_changes_are_summed_up() -> None:
    cluster = Cluster()
    cluster.lines(*topic(3_000))
    lines = cluster.lines(*(change(index, [2, 3], leader=2 + index % 2) for index in range(3_000)))
    assert lines == [
        "3000 partitions: leader changed (1500 to 2, 1500 to 3): "
        "orders-0, orders-1, orders-2, orders-3, orders-4 and 2995 more",
        "3000 partitions: ISR shrank (3000 without 1): orders-0, orders-1, orders-2, orders-3, orders-4 and 2995 more",
    ]


def test_as_many_changes_as_fit_are_a_line_each() -> None:
    cluster = Cluster()
    cluster.lines(*topic(MAX_LINES))
    assert len(cluster.lines(*(change(index, [1, 2]) for index in range(MAX_LINES)))) == MAX_LINES


def test_many_topics_are_one_line() -> None:
    records = [record for n in range(30) for record in topic(2, f"t{n}", bytes([n]) * 16)]
    cluster = Cluster()
    assert cluster.lines(*records) == ["30 topics created (60 partitions): t0, t1, t2, t3, t4 and 25 more"]
    gone = [RemoveTopicRecord(topic_id=bytes([n]) * 16) for n in range(30)]
    assert cluster.lines(*gone) == ["30 topics deleted (60 partitions): t0, t1, t2, t3, t4 and 25 more"]


def test_settings_are_shown_with_what_they_were() -> None:
    cluster = Cluster()
    cluster.lines(*topic(1), config("retention.ms", "60000"))
    assert cluster.lines(config("retention.ms", "1000"), config("cleanup.policy", "compact")) == [
        "settings of topic orders: retention.ms=1000 (was 60000), cleanup.policy=compact"
    ]
    assert cluster.lines(config("retention.ms", None)) == ["settings of topic orders: retention.ms removed (was 1000)"]
    assert cluster.lines(config("retention.ms", None)) == []
    assert cluster.lines(config("min.insync.replicas", "2", kind=4, resource="")) == [
        "settings of all brokers: min.insync.replicas=2"
    ]
    assert cluster.lines(config("interval.ms", "1000", kind=16, resource="all")) == [
        "settings of client metrics all: interval.ms=1000"
    ]


@pytest.mark.parametrize(
    "name",
    [
        "ssl.keystore.password",
        "listener.name.internal.ssl.key.password",
        "listener.name.internal.plain.sasl.jaas.config",
        "some.plugin.setting",
    ],
)
def test_values_that_may_be_secret_are_hidden(name: str) -> None:
    cluster = Cluster()
    found = cluster.events(config(name, "letmein", kind=4, resource="1"))
    assert found[0].text == f"settings of broker 1: {name}=[hidden]"
    changed = cluster.events(config(name, "letmein2", kind=4, resource="1"))
    assert changed[0].text == f"settings of broker 1: {name}=[hidden] (was [hidden])"
    assert "letmein" not in repr([*found, *changed])


def test_quotas_and_users() -> None:
    cluster = Cluster()
    quota = ClientQuotaRecord(
        entity=[
            EntityData(entity_type="user", entity_name="ann"),
            EntityData(entity_type="client-id", entity_name=None),
        ],
        key="producer_byte_rate",
        value=1024.0,
    )
    assert cluster.lines(quota) == ["quotas of client-id default, user ann: producer_byte_rate=1024"]
    quota.value = 2048.5
    assert cluster.lines(quota) == ["quotas of client-id default, user ann: producer_byte_rate=2048.5 (was 1024)"]
    quota.remove = True
    assert cluster.lines(quota) == ["quotas of client-id default, user ann: producer_byte_rate removed (was 2048.5)"]
    user = UserScramCredentialRecord(name="ann", mechanism=1, salt=b"s", stored_key=b"letmein", server_key=b"k")
    (event,) = cluster.events(user)
    assert event.text == "SCRAM credentials of user ann set" and "letmein" not in repr(event)


def test_what_does_not_concern_an_operator_is_no_line() -> None:
    assert Cluster().lines(NoOpRecord(), ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=1_000)) == []


def test_a_line_has_its_figures_as_fields() -> None:
    cluster = Cluster()
    cluster.lines(*topic(1))
    (event,) = cluster.events(change(0, [1, 2]))
    assert event.fields == {
        "event": "isr_shrank",
        "topic": "orders",
        "partition": 0,
        "leader": 1,
        "leader_epoch": 0,
        "isr": [1, 2],
        "isr_before": [1, 2, 3],
    }


def test_a_snapshot_tells_what_differs_and_every_kind_of_record_has_words() -> None:
    there, here = ClusterImage(), ClusterImage()
    there.apply(everything())
    records = snapshot.snapshot_records(there)
    first = events(here.replace(records), here)
    assert len(first) > 8 and all(event.text and event.fields["event"] for event in first)
    assert events(here.replace(snapshot.snapshot_records(there)), here) == []
