"""What survives a stop and a kill -9: topics, ids, settings, records, offsets; and what the command line refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop.conftest import ON_KAFKA, StartServer
from tests.interop.servers import Ottla, Server, ServerFailed
from tests.interop.test_librdkafka import Clients, create, done, produce

confluent_kafka = pytest.importorskip("confluent_kafka", reason="librdkafka: confluent-kafka is not installed")
confluent_admin = pytest.importorskip("confluent_kafka.admin", reason="librdkafka: confluent-kafka is not installed")


def admin_of(server: Server) -> Any:
    return confluent_admin.AdminClient({"bootstrap.servers": server.bootstrap})


def setting(admin: Any, topic: str, name: str) -> str:
    resource = confluent_admin.ConfigResource(confluent_admin.ResourceType.TOPIC, topic)
    (config,) = done(admin.describe_configs([resource])).values()
    return str(config[name].value)


def described(admin: Any, topic: str) -> tuple[str, int]:
    (description,) = done(admin.describe_topics(confluent_kafka.TopicCollection([topic]))).values()
    return str(description.topic_id), len(description.partitions)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_everything_acknowledged_survives(start_server: StartServer, how: str) -> None:
    server = start_server()
    admin = admin_of(server)
    create(admin, "kept", partitions=3, retention_ms="123456789")
    create(admin, "gone")
    clients = Clients(server.bootstrap)
    values = [b"value %d" % number for number in range(2000)]
    produce(clients.producer(enable_idempotence=True, compression_type="lz4"), "kept", values, partition=1)
    done(admin.delete_records([confluent_kafka.TopicPartition("kept", 1, 100)]))
    done(admin.delete_topics(["gone"]))
    before = described(admin, "kept")
    cluster_id = admin.list_topics(timeout=120).cluster_id
    for _ in range(2):
        getattr(server, how)()
        server.start()
        admin = admin_of(server)
        assert described(admin, "kept") == before
        assert setting(admin, "kept", "retention.ms") == "123456789"
        assert admin.list_topics(timeout=120).cluster_id == cluster_id
        assert "gone" not in admin.list_topics(timeout=120).topics
        consumer = clients.consumer()
        watermarks = consumer.get_watermark_offsets(confluent_kafka.TopicPartition("kept", 1), timeout=120)
        assert watermarks == (100, len(values)) or how == "kill"  # the new start is checkpointed within a minute
        assert watermarks[1] == len(values)
        read = clients.read("kept", len(values) - 100, partition=1, offset=100)
        assert [message.value() for message in read] == values[100:]
        (offset,) = produce(clients.producer(), "kept", [b"after"], partition=1)
        assert offset == len(values)
        values.append(b"after")
    clients.close()


ottla_only = pytest.mark.skipif(ON_KAFKA, reason="the command line is Ottla's own")


@ottla_only
def test_a_second_server_on_the_same_folder_is_refused(start_server: StartServer) -> None:
    server = start_server()
    second = Ottla(server.data)
    with pytest.raises(ServerFailed):
        second.start()
    second.kill()
    assert server.answers()


@ottla_only
def test_the_ready_line_comes_once_it_answers_and_sigterm_ends_it_with_success(tmp_path: Path) -> None:
    server = Ottla(tmp_path / "data")
    server.start()
    server.stop()
    assert server.exit_code == 0, server.output()
    text = server.output()
    assert str(server.port) in text, text
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "data" / "meta.properties").exists()


@ottla_only
@pytest.mark.parametrize(
    "override", ["log.retention.hourz=1", "log.retention.hours=soon", "num.partitions=-3", "nonsense"]
)
def test_a_wrong_setting_is_refused_by_name(tmp_path: Path, override: str) -> None:
    server = Ottla(tmp_path / "data", [override])
    with pytest.raises(ServerFailed):
        server.start()
    assert server.exit_code not in (0, None)
    assert override.split("=")[0] in server.output()
    assert "Traceback" not in server.output()


@ottla_only
def test_a_properties_file_is_read_and_overridden(tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text("num.partitions = 4\n# a comment\nlog.retention.ms:777777\ncompression.type=lz4\n")
    server = Ottla(tmp_path / "data", ["num.partitions=3"], arguments=["--config", str(settings)])
    server.start()
    try:
        admin = admin_of(server)
        done(admin.create_topics([confluent_admin.NewTopic("t")]))
        assert described(admin, "t")[1] == 3
        assert setting(admin, "t", "retention.ms") == "777777"
        assert setting(admin, "t", "compression.type") == "lz4"
    finally:
        server.stop()


@ottla_only
def test_a_port_in_use_is_told_plainly(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server()
    second = Ottla(tmp_path / "other", port=server.port)
    second.launch()
    assert second._ended(120)
    assert second.exit_code not in (0, None)
    assert str(server.port) in second.output()
    assert "Traceback" not in second.output()
