"""`ottla start --registry-port` and `kafka.registry_url`: a registry that comes and goes with its node."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import pack

import pytest

from ottla.client import KafkaError
from ottla.client.blocking import Admin, Producer
from ottla.converters.registry import AVRO, RegisteredSchema, Registry, RegistrySettings
from ottla.testing import Broker

pytestmark = pytest.mark.interop


def registry_at(url: str) -> Registry:
    settings = RegistrySettings.parse({"url": url})
    assert settings is not None
    return Registry(settings)


@contextmanager
def node(data: Path) -> Iterator[tuple[subprocess.Popen[str], str, str, int]]:
    """A node with a registry: its process, its address, the registry's URL and process id."""
    command = [sys.executable, "-m", "ottla", "start", "--port", "0", "--data", str(data), "--registry-port", "0"]
    command += ["--override", "group.initial.rebalance.delay.ms=0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stderr is not None
        ready = re.search(r"ready on (\S+)", process.stdout.readline())
        url = next(one.group() for line in process.stderr if (one := re.search(r"http://\S+", line)))
        assert ready is not None
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield process, ready.group(1), url, int(children[0])
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=30)


def is_gone(pid: int) -> bool:
    """Whether a process has ended, within a generous time. An orphan of a container without init stays a zombie."""
    for _ in range(300):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.1)
    return False


def test_it_ends_with_a_node_that_is_killed_and_with_one_that_stops(tmp_path: Path) -> None:
    with node(tmp_path / "data") as (process, address, url, pid):
        registry_at(url).register("orders-value", RegisteredSchema(AVRO, '"string"'))
        with Admin(bootstrap_servers=address) as admin:
            admin.create_topic("orders", 1, 1, {"confluent.value.schema.validation": "true"})
        with Producer(bootstrap_servers=address) as producer:
            good, bad = producer.send("orders", pack(">bI", 0, 1) + b"\x02a"), producer.send("orders", b"plain")
            with pytest.raises(KafkaError):
                bad.result()
            del good
        process.kill()
        assert is_gone(pid)
    with node(tmp_path / "data") as (process, _, url, pid):
        assert registry_at(url).subjects() == ["orders-value"]
        process.terminate()
        assert process.wait(30) == 0
        assert is_gone(pid)


def test_one_that_is_killed_is_started_again(tmp_path: Path) -> None:
    with node(tmp_path / "data") as (_, _, url, pid):
        registry_at(url).register("orders-value", RegisteredSchema(AVRO, '"string"'))
        os.kill(pid, 9)
        assert is_gone(pid)
        for _ in range(300):
            try:
                assert registry_at(url).subjects() == ["orders-value"]
                break
            except Exception:
                time.sleep(0.1)
        else:
            pytest.fail("the registry was not started again")


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with Broker() as broker:
        command = [sys.executable, "-m", "ottla", "start", "--port", "0", "--data", str(tmp_path / "data")]
        refused = subprocess.run(
            [*command, "--registry-port", str(broker.port)], capture_output=True, text=True, timeout=60
        )
    assert refused.returncode == 2 and "--registry-port" in refused.stderr


def test_a_test_asks_its_broker_for_a_registry(kafka: Broker) -> None:
    assert registry_at(kafka.registry_url).register("orders-value", RegisteredSchema(AVRO, '"string"')) == 1
    assert kafka.registry_url == kafka.registry_url
    kafka.restart()
    with kafka.admin() as admin:
        admin.create_topic("orders", 1, 1, {"confluent.value.schema.validation": "true"})
    with Producer(kafka.client_settings()) as producer:
        producer.send("orders", pack(">bI", 0, 1) + b"\x02a").result()
        with pytest.raises(KafkaError):
            producer.send("orders", b"plain").result()


@pytest.mark.kafka(secure=True)
def test_a_secured_broker_has_one_too(kafka: Broker) -> None:
    assert registry_at(kafka.registry_url).register("orders-value", RegisteredSchema(AVRO, '"string"')) == 1
