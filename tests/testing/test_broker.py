"""`Broker`: a node of one's own, and what a test does to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.testing import Broker, BrokerFailed
from tests.testing.orders import read, write


def test_a_broker_is_ready_for_any_client_and_leaves_nothing_behind() -> None:
    with Broker() as broker:
        write(broker, "one", "two")
        assert read(broker, 2) == ["one", "two"]
        folder, pid = broker.data, broker.pid
        assert os.path.isdir(folder) and pid is not None
    assert not os.path.exists(folder)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_what_was_acknowledged_is_there_after_a_kill_on_the_same_port() -> None:
    with Broker() as broker:
        write(broker, "one")
        address = broker.bootstrap_servers
        broker.kill()
        assert not broker.is_running
        broker.start()
        assert broker.bootstrap_servers == address
        assert read(broker, 1) == ["one"]


def test_a_paused_broker_answers_when_it_goes_on() -> None:
    with Broker() as broker:
        write(broker, "one")
        broker.pause()
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", value="two")
        assert producer.flush(0.5) == 1
        broker.resume()
        assert producer.flush(120) == 0


def test_a_folder_that_was_named_is_kept(tmp_path: Path) -> None:
    with Broker(data=str(tmp_path / "data")) as broker:
        write(broker, "one")
    with Broker(data=str(tmp_path / "data")) as broker:
        assert read(broker, 1) == ["one"]


def test_a_setting_that_does_not_exist_is_told_with_the_nearest_name() -> None:
    with pytest.raises(BrokerFailed, match=r"num\.partitions"), Broker({"num.partition": 3}):
        pass


def test_settings_are_kafkas() -> None:
    with Broker({"auto.create.topics.enable": False}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": 1500})
        errors: list[object] = []
        producer.produce("nowhere", value="x", on_delivery=lambda error, message: errors.append(error))
        producer.flush(120)
        assert errors and errors[0] is not None
