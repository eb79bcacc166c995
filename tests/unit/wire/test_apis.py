from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.wire import schema
from ottla.wire.apis import APIS, request_class, response_class
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.records import GROUP_KEYS, GROUP_VALUES, METADATA, TRANSACTION_VALUES, record_class
from ottla.wire.messages.records.topic_record import TopicRecord


def test_the_table_has_every_api_of_kafka_4_4() -> None:
    assert list(APIS) == [0, 1, 2, 3, *range(8, 95)]
    assert APIS[1] == (1, "Fetch", "fetch", 4, 18, 12, ("broker", "controller"), False)
    assert [api.name for api in APIS.values() if api.latest_version_unstable] == ["InitProducerId"]
    assert [api.name for api in APIS.values() if api.first_flexible_version is None] == [
        "SaslHandshake",
        "OffsetDelete",
    ]
    assert APIS[52].listeners == ("controller",)


def test_versions() -> None:
    fetch, handshake = APIS[1], APIS[17]
    assert [fetch.is_supported(version) for version in (3, 4, 18, 19)] == [False, True, True, False]
    assert [fetch.is_flexible(version) for version in (11, 12)] == [False, True]
    assert not handshake.is_flexible(1)


@pytest.mark.parametrize("key", APIS)
def test_every_api_has_a_request_and_a_response_of_its_versions(key: int) -> None:
    api = APIS[key]
    for cls in (request_class(key), response_class(key)):
        declared = schema(cls)
        assert declared.api_key == key
        assert declared.versions == (api.min_version, api.max_version)
        assert declared.first_flexible_version == api.first_flexible_version


def test_classes_by_key() -> None:
    assert request_class(1) is FetchRequest
    assert response_class(1) is FetchResponse
    assert record_class(METADATA, 2) is TopicRecord
    assert record_class(GROUP_KEYS, 1).__name__ == "OffsetCommitKey"
    assert record_class(GROUP_VALUES, 2).__name__ == "GroupMetadataValue"
    assert record_class(TRANSACTION_VALUES, 0).__name__ == "TransactionLogValue"
    for unknown in (4, 95):
        with pytest.raises(KeyError):
            request_class(unknown)
    with pytest.raises(KeyError):
        record_class(METADATA, 999)


def test_importing_the_package_imports_no_message() -> None:
    program = "import sys, ottla.wire, ottla.wire.frames; print([m for m in sys.modules if '.messages.' in m])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"
