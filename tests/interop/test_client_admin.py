"""Ottla's own admin client: on Ottla, and with OTTLA_TEST_KAFKA=1 on Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from ottla.client import Admin, Producer, TopicPartition
from ottla.client.admin import (
    EARLIEST,
    END_OF_LOG,
    LATEST,
    MAX_TIMESTAMP,
    ConfigChange,
    ConfigResource,
    ConfigSource,
    NewTopic,
    Operation,
    PartialFailure,
    ResourceType,
)
from ottla.client.errors import ErrorCode, KafkaError, UnknownTopicOrPartition
from tests.interop.conftest import ON_KAFKA
from tests.interop.servers import Server


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 200))


def admin_of(server: Server) -> Admin:
    return Admin(bootstrap_servers=server.bootstrap, default_api_timeout_ms=20_000)


def code_of(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


def test_topics_are_created_described_grown_and_deleted(broker: Server, topic: str) -> None:
    async def work() -> None:
        async with admin_of(broker) as admin:
            created = await admin.create_topic(topic, 3, 1, {"retention.ms": "60000"})
            assert (created.name, created.partition_count, created.replication_factor) == (topic, 3, 1)
            assert topic in await admin.list_topics()
            described = (await admin.describe_topics([topic]))[topic]
            assert described.topic_id == created.topic_id
            assert [one.partition for one in described.partitions] == [0, 1, 2]
            assert all(one.isr == one.replicas == (one.leader_id,) for one in described.partitions)
            await admin.create_partitions({topic: 5})
            assert len((await admin.describe_topics([topic]))[topic].partitions) == 5
            with pytest.raises(KafkaError) as refused:
                await admin.create_partitions({topic: 4})
            assert code_of(refused) is ErrorCode.INVALID_PARTITIONS
            with pytest.raises(KafkaError) as again:
                await admin.create_topic(topic)
            assert code_of(again) is ErrorCode.TOPIC_ALREADY_EXISTS
            await admin.delete_topics([topic])
            with pytest.raises(UnknownTopicOrPartition):
                await admin.describe_topics([topic])
            with pytest.raises(UnknownTopicOrPartition):
                await admin.delete_topics([topic])

    run(work())


def test_of_several_topics_each_has_its_own_outcome(broker: Server, topic: str) -> None:
    async def work() -> None:
        async with admin_of(broker) as admin:
            await admin.create_topic(topic)
            with pytest.raises(PartialFailure) as failure:
                await admin.create_topics([NewTopic(topic), NewTopic(f"{topic}-new", 2), NewTopic("not allowed!")])
            assert list(failure.value.results) == [f"{topic}-new"]
            assert {name: error.code for name, error in failure.value.errors.items()} == {
                topic: ErrorCode.TOPIC_ALREADY_EXISTS,
                "not allowed!": ErrorCode.INVALID_TOPIC_EXCEPTION,
            }
            await admin.create_topics([NewTopic(f"{topic}-dry")], validate_only=True)
            assert f"{topic}-dry" not in await admin.list_topics()

    run(work())


def test_settings_of_topics_and_brokers_change(broker: Server, topic: str) -> None:
    async def work() -> None:
        async with admin_of(broker) as admin:
            await admin.create_topic(topic)
            await admin.set_topic_config(topic, {"retention.ms": "12345", "cleanup.policy": "compact"})
            config = await admin.topic_config(topic)
            assert config["retention.ms"].value == "12345"
            assert config["retention.ms"].source is ConfigSource.DYNAMIC_TOPIC
            resource = ConfigResource(ResourceType.TOPIC, topic)
            await admin.alter_configs({resource: [ConfigChange("cleanup.policy", "delete", Operation.APPEND)]})
            assert (await admin.topic_config(topic))["cleanup.policy"].value == "compact,delete"
            await admin.set_topic_config(topic, {"retention.ms": None})
            assert (await admin.topic_config(topic))["retention.ms"].is_default
            with pytest.raises(KafkaError) as refused:
                await admin.set_topic_config(topic, {"retention.ms": "soon"})
            assert code_of(refused) is ErrorCode.INVALID_CONFIG
            cluster = await admin.describe_cluster()
            one = ConfigResource(ResourceType.BROKER, str(cluster.brokers[0].id))
            settings = (await admin.describe_configs([one], include_synonyms=True))[one]
            assert "log.retention.hours" in settings or "log.retention.ms" in settings

    run(work())


def test_records_are_found_by_time_and_deleted(broker: Server, topic: str) -> None:
    place = TopicPartition(topic, 0)

    async def work() -> None:
        async with admin_of(broker) as admin, Producer(bootstrap_servers=broker.bootstrap) as producer:
            await admin.create_topic(topic, 1)
            for number in range(10):
                await producer.send(topic, b"x", timestamp=1000 + number)
            assert (await admin.list_offsets({place: EARLIEST}))[place].offset == 0
            assert (await admin.list_offsets({place: LATEST}))[place].offset == 10
            assert (await admin.list_offsets({place: 1004}))[place][:2] == (4, 1004)
            assert (await admin.list_offsets({place: MAX_TIMESTAMP}))[place].offset == 9
            assert (await admin.list_offsets({place: 5000}))[place].offset == -1
            assert await admin.delete_records({place: 6}) == {place: 6}
            assert (await admin.list_offsets({place: EARLIEST}))[place].offset == 6
            assert await admin.delete_records({place: END_OF_LOG}) == {place: 10}
            with pytest.raises(KafkaError) as refused:
                await admin.delete_records({place: 11})
            assert code_of(refused) is ErrorCode.OFFSET_OUT_OF_RANGE
            with pytest.raises(UnknownTopicOrPartition):
                await admin.list_offsets({TopicPartition(topic, 7): LATEST})

    run(work())


def test_a_groups_offsets_are_set_read_and_forgotten(broker: Server, topic: str) -> None:
    group = f"group-{topic}"
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def work() -> None:
        async with admin_of(broker) as admin, Producer(bootstrap_servers=broker.bootstrap) as producer:
            await admin.create_topic(topic, 2)
            for _ in range(5):
                await producer.send(topic, b"x", partition=0)
            await admin.alter_group_offsets(group, {first: 2, second: 0})
            assert {place: one.offset for place, one in (await admin.group_offsets(group)).items()} == {
                first: 2,
                second: 0,
            }
            assert (await admin.group_offsets(group, [first]))[first].offset == 2
            assert (await admin.group_lag(group))[first] == (2, 5, 3)
            assert group in [one.group_id for one in await admin.list_groups()]
            described = (await admin.describe_groups([group]))[group]
            assert (described.state, described.members) == ("Empty", ())
            await admin.delete_group_offsets(group, [second])
            assert list(await admin.group_offsets(group)) == [first]
            await admin.delete_groups([group])
            with pytest.raises(KafkaError) as gone:
                await admin.delete_groups([group])
            assert code_of(gone) is ErrorCode.GROUP_ID_NOT_FOUND
            with pytest.raises(KafkaError) as unknown:
                await admin.describe_groups([group])
            assert code_of(unknown) is ErrorCode.GROUP_ID_NOT_FOUND

    run(work())


def test_the_cluster_its_disks_and_its_quorum_are_described(broker: Server, topic: str) -> None:
    async def work() -> None:
        async with admin_of(broker) as admin, Producer(bootstrap_servers=broker.bootstrap) as producer:
            await admin.create_topic(topic, 1)
            await producer.send(topic, bytes(1000))
            cluster = await admin.describe_cluster()
            (node,) = cluster.brokers
            assert (node.host, node.port) == ("127.0.0.1", broker.port)
            assert len(cluster.cluster_id) == 22
            (folder,) = (await admin.describe_log_dirs())[node.id]
            assert folder.replicas[TopicPartition(topic, 0)].size_bytes > 1000
            assert folder.error is None
            assert folder.total_bytes >= folder.usable_bytes > 0
            quorum = await admin.describe_quorum()
            assert quorum.leader_id in [voter.replica_id for voter in quorum.voters]
            if not ON_KAFKA:
                return  # elections and reassignments come with Ottla's clusters
            outcome = await admin.elect_leaders([TopicPartition(topic, 0)])
            error = outcome[TopicPartition(topic, 0)]
            assert error is not None
            assert error.code is ErrorCode.ELECTION_NOT_NEEDED
            assert await admin.list_partition_reassignments() == {}

    run(work())


def test_quotas_are_set_and_removed(broker: Server, topic: str) -> None:
    entity = (("client-id", topic),)

    async def work() -> None:
        async with admin_of(broker) as admin:
            await admin.alter_client_quotas({entity: {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6}})
            for _ in range(1_200):
                found = await admin.describe_client_quotas({"client-id": topic})
                if found:
                    break
                await asyncio.sleep(0.1)
            assert found == {entity: {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6}}
            await admin.alter_client_quotas({entity: {"producer_byte_rate": None, "consumer_byte_rate": None}})
            with pytest.raises(KafkaError):
                await admin.alter_client_quotas({entity: {"no_such_quota": 1.0}})

    run(work())


def test_transactions_are_listed_described_and_fenced(transaction_broker: Server, topic: str) -> None:
    async def work() -> None:
        async with admin_of(transaction_broker) as admin:
            await admin.create_topic(topic, 1)
            producer = Producer(bootstrap_servers=transaction_broker.bootstrap, transactional_id=topic)
            await producer.begin_transaction()
            await producer.send(topic, b"x")
            listed = {one.transactional_id: one.state for one in await admin.list_transactions()}
            assert listed[topic] == "Ongoing"
            described = (await admin.describe_transactions([topic]))[topic]
            assert described.state == "Ongoing"
            assert described.partitions == (TopicPartition(topic, 0),)
            (writer,) = (await admin.describe_producers([TopicPartition(topic, 0)]))[TopicPartition(topic, 0)]
            assert (writer.producer_id, writer.transaction_start_offset) == (described.producer_id, 0)
            await admin.fence_producers([topic])
            with pytest.raises(KafkaError):
                await producer.commit_transaction()
            await producer.close()
            with pytest.raises(KafkaError) as unknown:
                await admin.describe_transactions([f"{topic}-nobody"])
            assert code_of(unknown) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    run(work())
