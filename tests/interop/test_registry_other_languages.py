"""Registry clients and serializers of Go (franz-go's sr, hamba/avro), Node (@kafkajs/confluent-schema-registry) and
Java (Spring Cloud's client, Apache Avro): each reads what `ottla.serializers` wrote, and writes what it reads.

OTTLA_INTEROP_ALL=1 (`make interop`) runs them: what they need is downloaded on first use.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.serializers import AvroDeserializer, AvroSerializer, RegistryClient
from ottla.testing import Broker
from tests.interop.test_other_languages import CACHE, HERE, go_programs, succeeds
from tests.interop.test_registry import registry as started

__all__ = ["go_programs"]
pytestmark = [
    pytest.mark.skipif(
        os.environ.get("OTTLA_INTEROP_ALL") != "1",
        reason="registry clients of other languages: only with `make interop`",
    ),
    pytest.mark.timeout(900),
]
LINE = '{"type":"record","name":"Line","fields":[{"name":"item","type":"string"},{"name":"count","type":"long"}]}'


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Broker() as broker, started(broker, "_schemas") as (found, _):
        yield found


def exchanged(url: str, command: list[str], folder: Path) -> None:
    """A program gets a value and gives one."""
    registry = RegistryClient(url)
    sent = AvroSerializer(registry, LINE).serialize_blocking("lines", {"item": "pear", "count": 2})
    assert sent is not None
    found = bytes.fromhex(succeeds([*command, url, sent.hex()], folder).strip().splitlines()[-1])
    assert AvroDeserializer(registry).deserialize_blocking("lines", found) == {"item": "fig", "count": 3}


def test_go(url: str, go_programs: Path) -> None:
    exchanged(url, [str(go_programs / "registry")], go_programs)


def test_node(url: str) -> None:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    folder = CACHE / "node-registry"
    shutil.copytree(HERE / "node" / "registry", folder, dirs_exist_ok=True)
    if not (folder / "node_modules" / "@kafkajs").is_dir():
        try:
            succeeds(["npm", "install", "--no-audit", "--no-fund"], folder)
        except AssertionError as failure:
            pytest.skip(f"it cannot be downloaded: {str(failure)[-200:]}")
    exchanged(url, ["node", "registry.js"], folder)


def test_java(url: str) -> None:
    if shutil.which("mvn") is None or shutil.which("java") is None:
        pytest.skip("Java and Maven are not installed")
    folder = CACHE / "java-registry"
    shutil.copytree(HERE / "java" / "registry", folder, dirs_exist_ok=True)
    if not (folder / "lib").is_dir():
        try:
            succeeds(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"], folder)
        except AssertionError as failure:
            shutil.rmtree(folder / "lib", ignore_errors=True)
            pytest.skip(f"its libraries cannot be downloaded: {str(failure)[-200:]}")
    exchanged(url, ["java", "-cp", "lib/*", "RegistryClient.java"], folder)
