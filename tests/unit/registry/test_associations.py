"""Associations of topics and subjects."""

from __future__ import annotations

from typing import Any

from ottla.registry.state import State
from tests.unit.registry.requests import Registry, field, record

STRING, INT = {"schema": '"string"'}, {"schema": '"int"'}


def resource(*associations: dict[str, Any], name: str = "orders") -> dict[str, Any]:
    place = {"resourceName": name, "resourceNamespace": "lkc-1", "resourceId": f"id-{name}", "resourceType": "topic"}
    return {**place, "associations": list(associations)}


def test_a_topic_is_created_with_schemas_for_keys_and_values() -> None:
    registry = Registry()
    body = resource({"associationType": "key", "schema": STRING}, {"associationType": "value", "schema": INT})
    answer = registry.ask("POST", "/associations", body)
    ids = [one["schema"]["id"] for one in answer["associations"]]
    assert ids == [1, 2]
    assert [one["lifecycle"] for one in answer["associations"]] == ["STRONG", "STRONG"]
    assert registry.ask("GET", "/subjects") == [":.lkc-1:orders-key", ":.lkc-1:orders-value"]
    found = registry.ask("GET", "/associations/resources/id-orders?associationType=value")
    assert [one["subject"] for one in found] == [":.lkc-1:orders-value"]
    assert len(registry.ask("GET", "/associations/resources/lkc-1/orders")) == 2
    assert len(registry.ask("GET", "/associations/resources/-/orders")) == 2
    assert len(registry.ask("GET", "/associations/resources/lkc-1/-?lifecycle=weak")) == 0
    assert registry.ask("POST", "/associations", body)["associations"] == []
    assert registry.refused("DELETE", "/subjects/:.lkc-1:orders-key") == (409, 40904)


def test_the_same_schema_has_one_id_within_one_request() -> None:
    registry = Registry()
    body = resource({"associationType": "key", "schema": INT}, {"associationType": "value", "schema": INT})
    answer = registry.ask("POST", "/associations", body)
    assert [one["schema"]["id"] for one in answer["associations"]] == [1, 1]


def test_a_weak_association_names_a_subject_that_is_there() -> None:
    registry = Registry()
    weak = {"subject": "shared", "associationType": "value", "lifecycle": "WEAK"}
    assert registry.refused("POST", "/associations", resource(weak)) == (409, 40907)
    registry.register("shared", record(field("a", "int")))
    registry.ask("POST", "/associations", resource(weak))
    registry.ask("PUT", "/associations/resources/id-other", resource(weak, name="other"))
    assert len(registry.ask("GET", "/associations/subjects/shared")) == 2
    assert registry.refused("PUT", "/associations/resources/id-x", resource(weak)) == (422, 42212)
    registry.ask("DELETE", "/associations/resources/id-orders")
    assert len(registry.ask("GET", "/associations/subjects/shared")) == 1


def test_a_frozen_association_goes_with_its_subject() -> None:
    registry = Registry()
    registry.ask("POST", "/associations", resource({"schema": INT}))
    assert registry.refused("DELETE", "/associations/resources/id-orders") == (409, 40908)
    registry.ask("DELETE", "/associations/resources/id-orders?cascadeLifecycle=true&dryRun=true")
    assert registry.ask("GET", "/subjects") == [":.lkc-1:orders-value"]
    registry.ask("DELETE", "/associations/resources/id-orders?cascadeLifecycle=true")
    assert registry.ask("GET", "/subjects?deleted=true") == []


def test_a_batch_answers_each_request() -> None:
    registry = Registry()
    operation = {"type": "CREATE", "associationType": "value", "schema": INT}
    requests = [resource(operation), resource(operation), resource({**operation, "schema": STRING}, name="b"), {}]
    answer = registry.ask("POST", "/associations:batchMutate", {"requests": requests})
    assert ["error" in one for one in answer["results"]] == [False, True, False, True]
    found = registry.ask("POST", "/associations:batchGet", {"requests": [{"resourceId": "id-b"}]})
    assert found["results"][0]["result"]["associations"][0]["subject"] == ":.lkc-1:b-value"


def test_associations_are_read_back_from_the_topic() -> None:
    registry = Registry()
    registry.ask("POST", "/associations", resource({"schema": INT}))
    again = State()
    for one in registry.log:
        assert again.replay(one.key, one.value)
    assert again.associations() == registry.state.associations()
