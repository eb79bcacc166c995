"""Two instances of the registry while their leader is killed in the middle of writes: ids are given once, nothing that
was acknowledged is lost, reads go on."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ottla.cli.companion import companion_command
from ottla.client.blocking import Producer
from ottla.converters.errors import RegistryError
from ottla.converters.registry import AVRO, RegisteredSchema, Registry, RegistrySettings
from ottla.testing import Broker
from ottla.testing.reserved_port import ReservedPort

pytestmark = pytest.mark.interop
WRITERS = 4


def registry_at(url: str) -> Registry:
    settings = RegistrySettings.parse({"url": url, "timeout_ms": "60000"})
    assert settings is not None
    return Registry(settings)


@contextmanager
def instance(broker: Broker) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    reserved = ReservedPort()
    arguments = companion_command("registry", reserved.number, broker.bootstrap_servers)
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None and process.stdin is not None
        while b"http://" not in (line := process.stderr.readline()):
            assert line, "the registry did not start"
        yield f"http://127.0.0.1:{reserved.number}", process
    finally:
        process.kill()
        process.communicate()
        reserved.release()


def test_a_leader_that_is_killed_in_the_middle_of_writes() -> None:
    with Broker() as broker, instance(broker) as (first, leader):
        registry_at(first).register("first", RegisteredSchema(AVRO, '"int"'))  # it leads
        with instance(broker) as (second, _):
            acknowledged: dict[str, int] = {}
            is_over = threading.Event()

            def write(writer: int) -> None:
                registry = registry_at(second)
                for index in range(10_000):
                    if is_over.is_set():
                        return
                    name = f"w{writer}-{index}"
                    text = json.dumps({"type": "fixed", "name": f"F{writer}x{index}", "size": 1})
                    try:
                        acknowledged[name] = registry.register(name, RegisteredSchema(AVRO, text))
                    except RegistryError:
                        continue  # whether it is there is not known

            writers = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
            for one in writers:
                one.start()
            wait_for(lambda: len(acknowledged) > 10)
            leader.kill()
            leader.wait()
            before = len(acknowledged)
            assert registry_at(second).by_id(1).text == '"int"', "reads go on"
            wait_for(lambda: len(acknowledged) > before + 10)
            is_over.set()
            for one in writers:
                one.join()
            registry = registry_at(second)
            assert len(set(acknowledged.values())) == len(acknowledged), "an id was given twice"
            for name, id_ in acknowledged.items():
                assert registry.latest(name).schema_id == id_
            damaged = b'{"keytype":"SCHEMA","subject":"later","version":1,"magic":1}'
            with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                producer.send("_schemas", b'{"subject":"later","id":5000,"schema":"\xff', damaged, partition=0).result()
                producer.send("_schemas", b"unknown", b'{"keytype":"FUTURE"}', partition=0).result()
            assert registry.register("after", RegisteredSchema(AVRO, '"long"')) == 5001
            assert registry.by_id(1).text == '"int"'


def wait_for(condition: object) -> None:
    assert callable(condition)
    for _ in range(1_200):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail("it did not come to that in two minutes")
