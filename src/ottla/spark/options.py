"""The options of a source or a sink, under the names and with the defaults of Spark's own Kafka connector.

They are read once, in the driver, before anything is asked of a broker, so that a query with a wrong option does not
start. Options without a meaning for the kind of query at hand are named in a warning, as Spark's connector does.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ottla.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from ottla.client.core.partitions import TopicPartition
from ottla.wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

_log = logging.getLogger("ottla.spark")

DEFAULT_MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000
DEFAULT_POLL_TIMEOUT_MS = 120_000
DEFAULT_FETCH_BYTES = 2 * 1024 * 1024
DEFAULT_MAX_ROWS_PER_ARROW_BATCH = 65_536
EXACTLY_ONCE = "exactly_once"
AT_LEAST_ONCE = "at_least_once"
GROUP = "group"

_STRATEGIES = ("assign", "subscribe", "subscribepattern")
REFUSED = {
    "kafka.auto.offset.reset": "set the option startingOffsets to earliest or latest instead: Spark keeps the offsets "
    "of a query in its checkpoint, and startingOffsets only says where a new query begins",
    "kafka.key.deserializer": "keys are bytes; turn them into something else with DataFrame operations",
    "kafka.value.deserializer": "values are bytes; turn them into something else with DataFrame operations",
    "kafka.enable.auto.commit": "offsets are committed to the option groupId after each batch",
    "kafka.interceptor.classes": "interceptors may change what is read",
    "kafka.key.serializer": "keys are written as the bytes they are",
    "kafka.value.serializer": "values are written as the bytes they are",
}
_DURATION = re.compile(r"(\d+)\s*([a-z]*)")
_DURATION_MS = {"": 1, "us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class OptionError(ValueError):
    """An option that is missing, unknown or has a bad value; the message names the allowed ones."""


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics to read: by name, by a pattern, or as single partitions. One of the three is set."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    @property
    def topics(self) -> tuple[str, ...] | None:
        """The topics to ask a broker for; None: all."""
        if self.pattern is not None:
            return None
        return self.names or tuple(dict.fromkeys(partition.topic for partition in self.partitions))


@dataclass(frozen=True, slots=True)
class Limit:
    """Where reading begins or ends: one word or time for all partitions, or an offset or a time for each."""

    offset: int | None = None
    """EARLIEST_TIMESTAMP or LATEST_TIMESTAMP, for all partitions."""
    offsets: Mapping[TopicPartition, int] | None = None
    timestamp: int | None = None
    timestamps: Mapping[TopicPartition, int] | None = None
    is_group: bool = False
    """The committed offset of the consumer group (`startingOffsets` = group); a partition without one begins at the
    start."""

    @property
    def is_by_time(self) -> bool:
        return self.timestamp is not None or self.timestamps is not None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """A source's options."""

    topics: Topics
    starting: Limit
    ending: Limit
    is_latest_without_match: bool
    """startingOffsetsByTimestampStrategy: whether a partition without a record that young begins at its end."""
    config: ConsumerConfig
    fails_on_data_loss: bool
    includes_headers: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    poll_timeout_ms: int
    fetch_bytes: int
    max_rows: int
    group_id: str | None
    group_id_prefix: str
    commits_offsets: bool
    """Whether progress is committed to a consumer group; commitOffsets=false switches it off."""
    query_name: str
    """A description for messages, because a source does not learn the name of its query."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """A sink's options."""

    topic: str | None
    config: ProducerConfig
    delivery_guarantee: str
    is_guarantee_given: bool
    transactional_id_prefix: str | None
    """A name for the sink instead of the query's id; at most one query may use it at a time."""
    transaction_timeout_ms: int | None
    batch_size: int


def parse_read_options(given: Mapping[str, str], *, is_streaming: bool) -> ReadOptions:
    """The options of a source; OptionError for what Spark's Kafka source refuses, too."""
    options = {name.lower(): value for name, value in given.items()}
    topics = _topics(options)
    _refuse(options)
    starting = _limit(options, "starting", LATEST_TIMESTAMP if is_streaming else EARLIEST_TIMESTAMP)
    ending = _limit(options, "ending", LATEST_TIMESTAMP)
    if is_streaming:
        for name in ("endingoffsets", "endingoffsetsbytimestamp", "endingtimestamp"):
            if name in options:
                raise OptionError(f"{_spelled(name)} is not valid in streaming queries: they have no end")
    else:
        _check_batch_limits(starting, ending)
        for name in ("maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay"):
            if name in options:
                _log.warning("option %s has no effect in batch queries", _spelled(name))
    min_offsets = _positive(options, "minoffsetspertrigger", allows_zero=True)
    max_offsets = _positive(options, "maxoffsetspertrigger")
    if min_offsets is not None and max_offsets is not None and min_offsets > max_offsets:
        raise OptionError(f"minOffsetsPerTrigger ({min_offsets}) is higher than maxOffsetsPerTrigger ({max_offsets})")
    group_id = options.get("groupid", options.get("kafka.group.id"))
    if starting.is_group and not group_id:
        raise OptionError("startingOffsets=group needs the option groupId: the group to begin at")
    config = _client_config(ConsumerConfig, options, {"enable.auto.commit": False, "group.id": group_id})
    return ReadOptions(
        topics=topics,
        starting=starting,
        ending=ending,
        is_latest_without_match=_choice(options, "startingoffsetsbytimestampstrategy", ("error", "latest")) == "latest",
        config=config,
        fails_on_data_loss=_boolean(options, "failondataloss", True),
        includes_headers=_boolean(options, "includeheaders", False),
        min_partitions=_positive(options, "minpartitions"),
        max_records_per_partition=_positive(options, "maxrecordsperpartition"),
        max_offsets_per_trigger=max_offsets,
        min_offsets_per_trigger=min_offsets,
        max_trigger_delay_ms=_duration_ms(options, "maxtriggerdelay", DEFAULT_MAX_TRIGGER_DELAY_MS),
        poll_timeout_ms=_positive(options, "kafkaconsumer.polltimeoutms") or DEFAULT_POLL_TIMEOUT_MS,
        fetch_bytes=config.max_partition_fetch_bytes
        if "kafka.max.partition.fetch.bytes" in options
        else DEFAULT_FETCH_BYTES,
        max_rows=_positive(options, "maxrowsperarrowbatch") or DEFAULT_MAX_ROWS_PER_ARROW_BATCH,
        group_id=group_id,
        group_id_prefix=options.get("groupidprefix", "ottla-spark"),
        commits_offsets=_boolean(options, "commitoffsets", True),
        query_name=_reads(topics),
    )


def parse_write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options of a sink."""
    options = {name.lower(): value for name, value in given.items()}
    _refuse(options)
    guarantee = _choice(options, "deliveryguarantee", (EXACTLY_ONCE, AT_LEAST_ONCE))
    prefix = options.get("transactionalidprefix")
    if prefix is not None and not prefix.strip():
        raise OptionError("transactionalIdPrefix is empty: give the sink a name, or leave the option out")
    if "kafka.default.api.timeout.ms" in options:  # a consumer's name for it: a query's options may serve both
        options.setdefault("kafka.max.block.ms", options["kafka.default.api.timeout.ms"])
    config = _client_config(ProducerConfig, options, {"transactional.id": None})
    if guarantee == EXACTLY_ONCE and config.acks != -1:
        if "deliveryguarantee" in options:
            raise OptionError(f"deliveryGuarantee=exactly_once needs kafka.acks=all, not {options.get('kafka.acks')}")
        guarantee = AT_LEAST_ONCE
    topic = options.get("topic")
    return WriteOptions(
        topic=topic.strip() if topic is not None else None,
        config=config,
        delivery_guarantee=guarantee,
        is_guarantee_given="deliveryguarantee" in options,
        transactional_id_prefix=prefix.strip() if prefix is not None else options.get("kafka.transactional.id"),
        transaction_timeout_ms=config.transaction_timeout_ms if "kafka.transaction.timeout.ms" in options else None,
        batch_size=config.batch_size if "kafka.batch.size" in options else 0,
    )


# What is read


def _topics(options: Mapping[str, str]) -> Topics:
    given = [name for name in _STRATEGIES if name in options]
    names = "assign, subscribe, subscribePattern"
    if not given:
        raise OptionError(f"one of these options must say what is read: {names}")
    if len(given) > 1:
        raise OptionError(f"only one of these options may say what is read: {names}; there are {', '.join(given)}")
    value = options[given[0]].strip()
    if given[0] == "subscribe":
        topics = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
        if not topics:
            raise OptionError(f"subscribe names no topic: it is {options['subscribe']!r}")
        return Topics(names=topics)
    if given[0] == "subscribepattern":
        if not value:
            raise OptionError(f"subscribePattern is empty: it is {options['subscribepattern']!r}")
        try:
            re.compile(value)
        except re.error as error:
            raise OptionError(f"subscribePattern {value!r} is no regular expression: {error}") from None
        return Topics(pattern=value)
    expected = 'assign is e.g. {"topicA":[0,1],"topicB":[2,4]}'
    partitions = []
    for topic, numbers in _json_object(value, expected).items():
        if not isinstance(numbers, list) or not all(_is_int(number) and number >= 0 for number in numbers):
            raise OptionError(f"{expected}, not {value}")
        partitions += [TopicPartition(topic, number) for number in numbers]
    if not partitions:
        raise OptionError(f"assign names no partition: {expected}, not {value}")
    return Topics(partitions=tuple(dict.fromkeys(partitions)))


def _reads(topics: Topics) -> str:
    if topics.pattern is not None:
        return f"the query that reads topics like {topics.pattern}"
    return f"the query that reads {', '.join(topics.topics or ())}"


# Where it begins and ends


def _limit(options: Mapping[str, str], which: str, default: int) -> Limit:
    timestamp = options.get(f"{which}timestamp")
    if timestamp is not None:
        try:
            return Limit(timestamp=int(timestamp.strip()))
        except ValueError:
            raise OptionError(f"{which}Timestamp is milliseconds since 1970, not {timestamp!r}") from None
    by_timestamp = options.get(f"{which}offsetsbytimestamp")
    if by_timestamp is not None:
        expected = f'{which}OffsetsByTimestamp is e.g. {{"topicA":{{"0":1700000000000}}}}'
        return Limit(timestamps=_numbers_by_partition(by_timestamp, expected))
    given = options.get(f"{which}offsets")
    if given is None:
        return Limit(offset=default)
    word = given.strip().lower()
    if word in ("earliest", "latest"):
        return Limit(offset=EARLIEST_TIMESTAMP if word == "earliest" else LATEST_TIMESTAMP)
    if word == GROUP and which == "starting":
        return Limit(is_group=True)
    expected = f'{which}Offsets is earliest, latest or e.g. {{"topicA":{{"0":23,"1":-2}},"topicB":{{"0":-1}}}}'
    offsets = _numbers_by_partition(given, expected)
    for partition, offset in offsets.items():
        if offset < EARLIEST_TIMESTAMP:
            raise OptionError(f"{expected}: {partition} has {offset}; -1 is latest, -2 is earliest")
    return Limit(offsets=offsets)


def _check_batch_limits(starting: Limit, ending: Limit) -> None:
    if starting.offset == LATEST_TIMESTAMP:
        raise OptionError("startingOffsets can't be latest for batch queries: nothing would be read")
    if ending.offset == EARLIEST_TIMESTAMP:
        raise OptionError("endingOffsets can't be earliest for batch queries: nothing would be read")
    for partition, offset in (starting.offsets or {}).items():
        if offset == LATEST_TIMESTAMP:
            raise OptionError(f"startingOffsets for {partition} can't be latest (-1) for batch queries")
    for partition, offset in (ending.offsets or {}).items():
        if offset == EARLIEST_TIMESTAMP:
            raise OptionError(f"endingOffsets for {partition} can't be earliest (-2) for batch queries")
    for kind, first, last in (
        ("offset", starting.offsets, ending.offsets),
        ("timestamp", starting.timestamps, ending.timestamps),
    ):
        if first is None or last is None:
            continue
        if set(first) != set(last):
            raise OptionError(
                "starting and ending offsets must be given for the same partitions: "
                f"{_listed(first)} are not {_listed(last)}"
            )
        for partition, start in first.items():
            if start >= 0 and last[partition] >= 0 and start > last[partition]:
                raise OptionError(
                    f"{partition}: the starting {kind} {start} is after the ending {kind} {last[partition]}"
                )


def _listed(partitions: Mapping[TopicPartition, int]) -> str:
    return ", ".join(map(str, sorted(partitions)))


# Values


def _numbers_by_partition(text: str, expected: str) -> dict[TopicPartition, int]:
    found = {}
    for topic, numbers in _json_object(text, expected).items():
        if not isinstance(numbers, dict):
            raise OptionError(f"{expected}, not {text}")
        for partition, number in numbers.items():
            if not partition.isdecimal() or not _is_int(number):
                raise OptionError(f"{expected}, not {text}")
            found[TopicPartition(topic, int(partition))] = number
    return found


def _json_object(text: str, expected: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise OptionError(f"{expected}, not {text}")
    return value


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _positive(options: Mapping[str, str], name: str, *, allows_zero: bool = False) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    try:
        number = int(text.strip())
    except ValueError:
        raise OptionError(f"{_spelled(name)} is a whole number, not {text!r}") from None
    if number < 0 or (number == 0 and not allows_zero):
        raise OptionError(f"{_spelled(name)} must be positive, not {number}")
    return number


def _boolean(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name)
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(f"{_spelled(name)} is true or false, not {text!r}")
    return text.strip().lower() == "true"


def _choice(options: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    text = options.get(name, choices[0]).strip().lower()
    if text not in choices:
        raise OptionError(f"{_spelled(name)} is {' or '.join(choices)}, not {options[name]!r}")
    return text


def _duration_ms(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _DURATION_MS:
        raise OptionError(f"{_spelled(name)} is a time such as 500ms, 30s, 15m or 1h, not {text!r}")
    return int(int(match[1]) * _DURATION_MS[match[2]])


_SPELLINGS = (
    "startingOffsets",
    "endingOffsets",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "commitOffsets",
    "deliveryGuarantee",
    "maxRowsPerArrowBatch",
)


def _spelled(name: str) -> str:
    return next((spelling for spelling in _SPELLINGS if spelling.lower() == name), name)


# kafka.* properties


def _refuse(options: Mapping[str, str]) -> None:
    for name, reason in REFUSED.items():
        if name in options:
            raise OptionError(f"the option {name} is not supported: {reason}")
    if not options.get("kafka.bootstrap.servers", "").strip():
        raise OptionError("the option kafka.bootstrap.servers must name the brokers: host:port,host:port,...")


def _client_config(cls: type[Any], options: Mapping[str, str], fixed: Mapping[str, object]) -> Any:
    """A client's settings of the kafka.* options. Those that this client does not have are named in a warning: Kafka's
    own clients do the same."""
    declared = {one.name.replace("_", ".") for one in fields(cls)}
    others = {one.name.replace("_", ".") for kind in (ConsumerConfig, ProducerConfig) for one in fields(kind)}
    given: dict[str, object] = {}
    for name, value in options.items():
        if not name.startswith("kafka."):
            continue
        key = name.removeprefix("kafka.")
        if key in declared or key in cls.unused_names() or key in cls.refused_names():
            given[key] = value
        elif key not in others:
            _log.warning("%s has no effect in this connector", name)
    config: ClientConfig = cls.parse(given, {key: value for key, value in fixed.items() if value is not None})
    return config
