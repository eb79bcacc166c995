"""The kernel in both its forms: as it was imported, and its source run as plain Python under another name."""

from __future__ import annotations

import importlib.util
import json
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

import ottla.records
import ottla.records.kernel


def plain_kernel() -> ModuleType:
    name = "ottla_plain_kernel"
    if name not in sys.modules:
        path = Path(ottla.records.__file__).with_name("kernel.py")
        spec = importlib.util.spec_from_loader(name, SourceFileLoader(name, str(path)))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]


@pytest.fixture(params=["imported", "plain"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    return ottla.records.kernel if request.param == "imported" else plain_kernel()


@pytest.fixture
def plain() -> ModuleType:
    return plain_kernel()


@pytest.fixture(scope="session")
def java_batches() -> dict[str, bytes]:
    """Batches that kafka-clients 4.3.1 built: MemoryRecordsBuilder, its markers, its filter for compaction."""
    return _vectors("kafka-clients 4.3.1")


@pytest.fixture(scope="session")
def librdkafka_batches() -> dict[str, bytes]:
    """Segments of a Kafka 4.3.1 broker that confluent-kafka produced to, one codec each."""
    return _vectors("librdkafka (confluent-kafka 2.16.1)")


def _vectors(writer: str) -> dict[str, bytes]:
    text = Path(__file__).with_name("batches.json").read_text()
    return {name: bytes.fromhex(batch) for name, batch in json.loads(text)[writer].items()}
