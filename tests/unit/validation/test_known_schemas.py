"""What is known of schemas, and for how long."""

from __future__ import annotations

import pytest

from ottla.config import TopicConfig
from ottla.config.topic import RECORD_NAME_STRATEGY, TOPIC_NAME_STRATEGY, TOPIC_RECORD_NAME_STRATEGY
from ottla.validation import Facts, FieldRules, KnownSchemas, Verdict, rules_of
from ottla.validation.record_names import record_name

VALUES = FieldRules("orders", False, TOPIC_NAME_STRATEGY, False)
KEYS = FieldRules("orders", True, TOPIC_NAME_STRATEGY, False)
ORDERS = Facts(frozenset(["orders-value", "shop.Order", "orders-shop.Order"]), "shop.Order")
GUID = bytes(16)


def known(max_count: int = 10) -> KnownSchemas:
    return KnownSchemas(max_count=max_count, found_for_ms=1_000, missing_for_ms=100, pause_ms=50)


def test_a_schema_is_known_under_its_subjects_alone() -> None:
    schemas = known()
    assert schemas.verdict(VALUES, 7, 0) is Verdict.ASK
    schemas.learned(7, ORDERS, 0)
    assert schemas.verdict(VALUES, 7, 999) is Verdict.KNOWN
    assert schemas.verdict(VALUES, 7, 1_000) is Verdict.ASK
    assert schemas.verdict(KEYS, 7, 1) is Verdict.ASK, "it may have been registered under that subject since"
    schemas.settle(KEYS, 7, 1, 2)
    assert schemas.verdict(KEYS, 7, 2) is Verdict.ASK, "the answer is older than the question"
    schemas.learned(7, ORDERS, 2)
    schemas.settle(KEYS, 7, 1, 2)
    assert schemas.verdict(KEYS, 7, 101) is Verdict.UNKNOWN
    assert schemas.verdict(KEYS, 7, 102) is Verdict.ASK
    schemas.learned(7, Facts(frozenset(["orders-key"]), None), 50)
    assert schemas.verdict(KEYS, 7, 51) is Verdict.KNOWN


def test_that_a_schema_is_missing_is_believed_for_a_short_time() -> None:
    schemas = known()
    schemas.learned(7, None, 0)
    assert schemas.verdict(VALUES, 7, 99) is Verdict.UNKNOWN
    assert schemas.verdict(VALUES, 7, 100) is Verdict.ASK
    schemas.learned(7, ORDERS, 100)
    assert schemas.verdict(VALUES, 7, 101) is Verdict.KNOWN
    schemas.learned(7, None, 102)
    assert schemas.verdict(VALUES, 7, 103) is Verdict.UNKNOWN


def test_what_names_no_schema_or_an_impossible_one_is_not_asked_for() -> None:
    assert known().verdict(VALUES, None, 0) is Verdict.UNKNOWN
    assert known().verdict(VALUES, 2**31, 0) is Verdict.UNKNOWN
    assert known().verdict(VALUES, GUID, 0) is Verdict.ASK


def test_a_known_schema_stays_known_without_the_registry() -> None:
    schemas = known()
    schemas.learned(7, ORDERS, 0)
    schemas.failed(2_000)
    assert not schemas.may_ask(2_049)
    assert schemas.may_ask(2_050)
    assert schemas.without_registry(VALUES, 7) is Verdict.KNOWN
    assert schemas.without_registry(KEYS, 7) is Verdict.ASK
    assert schemas.without_registry(VALUES, 8) is Verdict.ASK
    schemas.learned(8, None, 2_050)
    assert schemas.may_ask(2_051)


def test_missing_schemas_do_not_push_out_known_ones() -> None:
    schemas = known(max_count=10)
    schemas.learned(7, ORDERS, 0)
    for schema in range(100, 1_100):
        schemas.learned(schema, None, 0)
    assert schemas.counts() == (1, 10)
    assert schemas.verdict(VALUES, 7, 1) is Verdict.KNOWN
    for schema in range(100, 120):
        schemas.learned(schema, ORDERS, 0)
    assert schemas.counts()[0] == 10


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        (TOPIC_NAME_STRATEGY, "orders-value"),
        (RECORD_NAME_STRATEGY, "shop.Order"),
        (TOPIC_RECORD_NAME_STRATEGY, "orders-shop.Order"),
    ],
)
def test_subjects_by_strategy(strategy: str, subject: str) -> None:
    rules = FieldRules("orders", False, strategy, False)
    assert rules.subject("shop.Order") == subject
    assert rules.are_met(ORDERS)
    assert not rules.are_met(Facts(frozenset(["other"]), "shop.Order"))
    assert rules.are_met(Facts(frozenset([subject]), None)) is (strategy == TOPIC_NAME_STRATEGY)


def test_rules_come_from_the_topics_settings() -> None:
    assert rules_of("t", TopicConfig.parse({})) == ()
    assert not TopicConfig.parse({}).validates_schemas
    config = TopicConfig.parse(
        {
            "confluent.value.schema.validation": "true",
            "confluent.value.subject.name.strategy": RECORD_NAME_STRATEGY,
            "ottla.key.schema.validation": "full",
        }
    )
    assert config.validates_schemas
    assert rules_of("t", config) == (
        FieldRules("t", True, TOPIC_NAME_STRATEGY, True),
        FieldRules("t", False, RECORD_NAME_STRATEGY, False),
    )


def test_refusals_say_what_a_record_names_and_what_was_expected() -> None:
    assert "names no schema" in VALUES.why_not(None, None)
    assert "schema id 7, which is not registered under the subject orders-value" in VALUES.why_not(7, None)
    assert GUID.hex() in VALUES.why_not(GUID, None)
    assert "as a record (RecordNameStrategy)" in FieldRules("t", False, RECORD_NAME_STRATEGY, False).why_not(7, None)


@pytest.mark.parametrize(
    ("kind", "text", "name"),
    [
        ("AVRO", '{"type":"record","name":"Order","namespace":"shop","fields":[]}', "shop.Order"),
        ("AVRO", '{"type":"record","name":"shop.Order","fields":[]}', "shop.Order"),
        ("AVRO", '"string"', None),
        ("AVRO", "{", None),
        ("JSON", '{"title":"Order"}', "Order"),
        ("JSON", '{"type":"object"}', None),
        (
            "PROTOBUF",
            'syntax = "proto3"; // package a;\npackage shop;\n/* message A { */ message Order {}',
            "shop.Order",
        ),
        ("PROTOBUF", 'syntax = "proto3"; message Order { message Part {} }', "Order"),
        ("PROTOBUF", 'syntax = "proto3";', None),
        ("AVRO", "[" * 100_000, None),
    ],
)
def test_names_of_records(kind: str, text: str, name: str | None) -> None:
    assert record_name(kind, text) == name
