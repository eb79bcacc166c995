"""Client quotas in the metadata log."""

from __future__ import annotations

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)

from .clusters import Cluster

Entity = list[tuple[str, str | None]]


def entry(entity: Entity, *operations: tuple[str, float | None]) -> AlterClientQuotasRequestEntryData:
    return AlterClientQuotasRequestEntryData(
        entity=[AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in operations],
    )


def alter(cluster: Cluster, *entries: AlterClientQuotasRequestEntryData) -> list[int]:
    reply = cluster.commit(cluster.controller.alter_client_quotas(AlterClientQuotasRequest(entries=list(entries))))
    return [result.error_code for result in reply.entries]


def test_quotas_are_set_changed_and_removed() -> None:
    cluster = Cluster(1)
    entity: Entity = [("user", "u"), ("client-id", None)]
    key = (("client-id", None), ("user", "u"))
    assert alter(cluster, entry(entity, ("producer_byte_rate", 10.0), ("consumer_byte_rate", 5.0))) == [0]
    assert cluster.image.client_quotas == {key: {"producer_byte_rate": 10.0, "consumer_byte_rate": 5.0}}
    alter(cluster, entry(entity, ("producer_byte_rate", None), ("request_percentage", 0.5)))
    assert cluster.image.client_quotas == {key: {"consumer_byte_rate": 5.0, "request_percentage": 0.5}}
    offset = cluster.offset
    alter(cluster, entry(entity, ("consumer_byte_rate", 5.0), ("producer_byte_rate", None)))
    assert cluster.offset == offset
    alter(cluster, entry(entity, ("consumer_byte_rate", None), ("request_percentage", None)))
    assert cluster.image.client_quotas == {}


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ([], "producer_byte_rate", 1.0),
        ([("zoo", "x")], "producer_byte_rate", 1.0),
        ([("user", "")], "producer_byte_rate", 1.0),
        ([("user", "a"), ("user", "b")], "producer_byte_rate", 1.0),
        ([("ip", "1.2.3.4"), ("user", "b")], "connection_creation_rate", 1.0),
        ([("ip", "not an ip")], "connection_creation_rate", 1.0),
        ([("ip", "1.2.3.4")], "producer_byte_rate", 1.0),
        ([("ip", "1.2.3.4")], "connection_creation_rate", 2.0**31),
        ([("user", "a")], "nope", 1.0),
        ([("user", "a")], "producer_byte_rate", -1.0),
        ([("user", "a")], "producer_byte_rate", float("nan")),
        ([("user", "a")], "producer_byte_rate", float("inf")),
        ([("user", "a")], "producer_byte_rate", 1.5),
        ([("user", "a")], "producer_byte_rate", 1e30),
    ],
)
def test_what_is_no_quota_is_refused(entity: Entity, key: str, value: float) -> None:
    cluster = Cluster(1)
    assert alter(cluster, entry(entity, (key, value))) == [ErrorCode.INVALID_REQUEST]
    assert cluster.image.client_quotas == {}


def test_addresses_and_hosts_are_entities() -> None:
    cluster = Cluster(1)
    entities: list[Entity] = [[("ip", "::1")], [("ip", None)], [("ip", "host.example")]]
    assert alter(cluster, *(entry(entity, ("connection_creation_rate", 1.0)) for entity in entities)) == [0, 0, 0]


def test_an_entity_or_a_key_named_twice_changes_nothing() -> None:
    cluster = Cluster(1)
    twice = [entry([("user", "u")], ("producer_byte_rate", value)) for value in (1.0, 2.0)]
    other = entry([("user", "v")], ("producer_byte_rate", 3.0))
    assert sorted(alter(cluster, twice[0], other, twice[1])) == [0, ErrorCode.INVALID_REQUEST]
    assert list(cluster.image.client_quotas) == [(("user", "v"),)]
    keys = entry([("user", "w")], ("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0))
    assert alter(cluster, keys) == [ErrorCode.INVALID_REQUEST]


def test_validate_only_decides_nothing() -> None:
    request = AlterClientQuotasRequest(
        entries=[entry([("user", "u")], ("producer_byte_rate", 1.0))], validate_only=True
    )
    assert Cluster(1).controller.alter_client_quotas(request).records == []
