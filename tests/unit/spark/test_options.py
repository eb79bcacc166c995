"""The options of sources and sinks: Spark's names, defaults and refusals."""

from __future__ import annotations

import pytest

from ottla.client.core.partitions import TopicPartition
from ottla.client.errors import ConfigError
from ottla.spark.options import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    OptionError,
    parse_read_options,
    parse_write_options,
)
from ottla.wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
SUBSCRIBED = {**SERVERS, "subscribe": "orders"}


def test_defaults_are_those_of_sparks_kafka_source() -> None:
    batch = parse_read_options(SUBSCRIBED, is_streaming=False)
    assert (batch.starting.offset, batch.ending.offset) == (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
    stream = parse_read_options(SUBSCRIBED, is_streaming=True)
    assert stream.starting.offset == LATEST_TIMESTAMP
    assert stream.fails_on_data_loss and not stream.includes_headers
    assert stream.min_partitions is stream.max_offsets_per_trigger is stream.min_offsets_per_trigger is None
    assert stream.max_trigger_delay_ms == 15 * 60 * 1000
    assert stream.config.isolation_level == "read_uncommitted"


def test_names_of_options_are_read_in_any_case() -> None:
    options = parse_read_options(
        {**SERVERS, "SubScribe": "a, b,,a", "MAXoffsetspertrigger": "7", "includeheaders": "TRUE"}, is_streaming=True
    )
    assert options.topics.names == ("a", "b")
    assert options.max_offsets_per_trigger == 7 and options.includes_headers


def test_assign_names_partitions() -> None:
    options = parse_read_options({**SERVERS, "assign": '{"a":[0,2],"b":[1]}'}, is_streaming=False)
    assert options.topics.partitions == (TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1))
    assert options.topics.topics == ("a", "b")


def test_a_time_for_all_wins_over_a_time_for_each_and_that_over_offsets() -> None:
    given = {**SUBSCRIBED, "startingOffsets": "earliest"}
    given["startingOffsetsByTimestamp"] = '{"orders":{"0":5}}'
    assert parse_read_options(given, is_streaming=True).starting.timestamps == {TopicPartition("orders", 0): 5}
    given["startingTimestamp"] = "9"
    assert parse_read_options(given, is_streaming=True).starting.timestamp == 9


def test_a_setting_of_kafkas_that_would_be_missed_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"does not have the setting ssl\.cipher\.suites"):
        parse_read_options({**SUBSCRIBED, "kafka.ssl.cipher.suites": "x"}, is_streaming=False)


def test_kafka_properties_reach_the_client() -> None:
    options = parse_read_options(
        {**SUBSCRIBED, "kafka.isolation.level": "read_committed", "kafka.unknown.property": "1"}, is_streaming=True
    )
    assert options.config.isolation_level == "read_committed"
    written = parse_write_options({**SERVERS, "topic": " t ", "kafka.compression.type": "zstd"})
    assert (written.topic, written.config.compression_type) == ("t", "zstd")


@pytest.mark.parametrize(
    ("given", "is_streaming", "said"),
    [
        (SERVERS, True, "must say what is read"),
        ({**SUBSCRIBED, "assign": "{}"}, True, "only one of these"),
        ({"subscribe": "a"}, True, "kafka.bootstrap.servers"),
        ({**SERVERS, "subscribe": " , "}, True, "names no topic"),
        ({**SERVERS, "subscribePattern": "("}, True, "no regular expression"),
        ({**SERVERS, "subscribePattern": " "}, True, "is empty"),
        ({**SERVERS, "assign": "a:1"}, True, "assign is e.g."),
        ({**SERVERS, "assign": '{"a":1}'}, True, "assign is e.g."),
        ({**SERVERS, "assign": '{"a":[]}'}, True, "names no partition"),
        ({**SUBSCRIBED, "startingOffsets": "middle"}, True, "startingOffsets is earliest, latest or"),
        ({**SUBSCRIBED, "startingOffsets": '{"orders":{"0":-3}}'}, True, "-1 is latest, -2 is earliest"),
        ({**SUBSCRIBED, "startingOffsets": '{"orders":{"x":3}}'}, True, "startingOffsets is"),
        ({**SUBSCRIBED, "startingOffsets": "group"}, True, "needs the option groupId"),
        ({**SUBSCRIBED, "startingTimestamp": "today"}, True, "milliseconds since 1970"),
        ({**SUBSCRIBED, "endingOffsets": "latest"}, True, "not valid in streaming"),
        ({**SUBSCRIBED, "endingTimestamp": "1"}, True, "not valid in streaming"),
        ({**SUBSCRIBED, "startingOffsets": "latest"}, False, "can't be latest"),
        ({**SUBSCRIBED, "startingOffsets": '{"orders":{"0":-1}}'}, False, "orders-0 can't be latest"),
        ({**SUBSCRIBED, "endingOffsets": "earliest"}, False, "can't be earliest"),
        ({**SUBSCRIBED, "endingOffsets": '{"orders":{"0":-2}}'}, False, "orders-0 can't be earliest"),
        (
            {**SUBSCRIBED, "startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"0":4}}'},
            False,
            "orders-0: the starting offset 5 is after the ending offset 4",
        ),
        (
            {**SUBSCRIBED, "startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"1":9}}'},
            False,
            "same partitions",
        ),
        ({**SUBSCRIBED, "minPartitions": "0"}, True, "minPartitions must be positive"),
        ({**SUBSCRIBED, "maxRecordsPerPartition": "x"}, True, "maxRecordsPerPartition is a whole number"),
        ({**SUBSCRIBED, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, True, "higher than"),
        ({**SUBSCRIBED, "maxTriggerDelay": "soon"}, True, "maxTriggerDelay is a time"),
        ({**SUBSCRIBED, "failOnDataLoss": "no"}, True, "failOnDataLoss is true or false"),
        ({**SUBSCRIBED, "startingOffsetsByTimestampStrategy": "guess"}, True, "error or latest"),
        ({**SUBSCRIBED, "kafka.auto.offset.reset": "latest"}, True, "startingOffsets"),
        ({**SUBSCRIBED, "kafka.enable.auto.commit": "true"}, True, "groupId"),
        ({**SUBSCRIBED, "kafka.value.deserializer": "x"}, True, "values are bytes"),
        ({**SUBSCRIBED, "kafka.security.protocol": "SASL"}, True, "security.protocol"),
    ],
)
def test_what_cannot_be_is_refused_in_words(given: dict[str, str], is_streaming: bool, said: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_read_options(given, is_streaming=is_streaming)
    assert said in str(refused.value)


def test_durations_are_read_as_spark_reads_them() -> None:
    for text, milliseconds in (("250ms", 250), ("3s", 3000), ("2m", 120_000), ("1h", 3_600_000), ("40", 40)):
        options = parse_read_options({**SUBSCRIBED, "maxTriggerDelay": text}, is_streaming=True)
        assert options.max_trigger_delay_ms == milliseconds


def test_a_sink_writes_exactly_once_unless_it_is_told_otherwise() -> None:
    assert parse_write_options(SERVERS).delivery_guarantee == EXACTLY_ONCE
    given = parse_write_options({**SERVERS, "deliveryGuarantee": "at_least_once"})
    assert given.delivery_guarantee == AT_LEAST_ONCE
    assert parse_write_options({**SERVERS, "kafka.acks": "1"}).delivery_guarantee == AT_LEAST_ONCE


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**SERVERS, "deliveryGuarantee": "twice"}, "exactly_once or at_least_once"),
        ({**SERVERS, "deliveryGuarantee": "exactly_once", "kafka.acks": "1"}, "needs kafka.acks=all"),
        ({**SERVERS, "transactionalIdPrefix": " "}, "transactionalIdPrefix is empty"),
        ({**SERVERS, "kafka.key.serializer": "x"}, "keys are written as the bytes they are"),
        ({"topic": "t"}, "kafka.bootstrap.servers"),
    ],
)
def test_a_sink_refuses_what_cannot_be(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as refused:
        parse_write_options(given)
    assert said in str(refused.value)
