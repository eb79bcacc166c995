"""kafka-consumer-groups --reset-offsets: where a group shall go on, by eight ways of saying it."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from errno import ENOENT

from ottla.cli.kafka.exceptions import log
from ottla.cli.kafka.failures import failure_of
from ottla.cli.kafka.group_descriptions import group_offsets, leaders_of, log_offsets
from ottla.cli.kafka.java import hash_order, string_hash
from ottla.cli.kafka.options import Options, ToolError, UsageError
from ottla.cli.kafka.topic_arguments import parse_topic_argument, print_error
from ottla.client.admin import EARLIEST, LATEST, Admin
from ottla.client.errors import ErrorCode, KafkaError
from ottla.client.metadata import TopicPartition

LOGGER = "org.apache.kafka.tools.OffsetsUtils"
INACTIVE = ("Empty", "Dead")
Offsets = dict[TopicPartition, int]
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?", re.IGNORECASE
)
_MOMENT = re.compile(r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d+)(Z|[+-]\d\d(?::?\d\d)?)")
_NO_FILE = "java.nio.file.NoSuchFileException"
_UNQUOTED_SIZE = 24
_FIRST_SAFE = "-"


class Resets:
    """Plans and makes the resets of one command."""

    def __init__(self, admin: Admin, options: Options) -> None:
        self._admin = admin
        self._options = options

    async def _state(self, group_id: str) -> str:
        return (await self._admin.describe_groups([group_id]))[group_id].state

    async def plan(self, group_id: str) -> Offsets:
        """The new offsets of a group; they are committed if that was asked for."""
        try:
            state = await self._state(group_id)
        except KafkaError as error:
            if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            state = "Dead"
        if state not in INACTIVE:
            print_error(
                f"Assignments can only be reset if the group '{group_id}' is inactive, "
                f"but the current state is {state}."
            )
            return {}
        partitions = await self._partitions(group_id)
        await self._check_partitions(partitions)
        offsets = await self._offsets(group_id, partitions)
        if self._options.has("execute") and not self._options.has("dry-run"):
            try:
                await self._admin.alter_group_offsets(group_id, offsets)
            except KafkaError as error:
                raise failure_of(error) from None
        return offsets

    async def _partitions(self, group_id: str) -> list[TopicPartition]:
        if self._options.has("all-topics"):
            return list(await group_offsets(self._admin, group_id))
        if not self._options.has("topic"):
            if not self._options.has("from-file"):
                raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
            return []
        return await self._named_partitions(self._options.values("topic"))

    async def _named_partitions(self, named: Sequence[str]) -> list[TopicPartition]:
        """Of topics, or of parts of topics as topic:0,1,2."""
        partitions = [partition for topic in named if ":" in topic for partition in parse_topic_argument(topic)]
        whole = [topic for topic in named if ":" not in topic]
        if whole:
            try:
                described = await self._admin.describe_topics(whole)
            except KafkaError as error:
                raise failure_of(KafkaError(error.code)) from None
            partitions += [
                TopicPartition(topic, one.partition) for topic in described for one in described[topic].partitions
            ]
        return partitions

    async def _check_partitions(self, partitions: list[TopicPartition]) -> None:
        leaders = await leaders_of(self._admin, partitions)
        missing = ",".join(map(_name, (one for one in partitions if one not in leaders)))
        if missing:
            message = f'The partitions "{missing}" do not exist'
            raise failure_of(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message))
        leaderless = ",".join(map(_name, (one for one in partitions if leaders[one] == -1)))
        if leaderless:
            message = f'The partitions "{leaderless}" have no leader'
            raise failure_of(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, message))

    async def _offsets(self, group_id: str, partitions: list[TopicPartition]) -> Offsets:
        options = self._options
        if options.has("to-offset"):
            return await self._within_log(dict.fromkeys(partitions, options.values("to-offset")[0]))
        if options.has("to-earliest"):
            return await log_offsets(self._admin, partitions, EARLIEST)
        if options.has("to-latest"):
            return await log_offsets(self._admin, partitions, LATEST)
        if options.has("shift-by"):
            return await self._within_log(await self._shifted(group_id, partitions, options.value("shift-by")))
        if options.has("to-datetime"):
            return await self._at(partitions, parse_moment(options.values("to-datetime")[0]))
        if options.has("by-duration"):
            ago_ms = parse_duration_ms(options.value("by-duration"))
            return await self._at(partitions, int(time.time() * 1000) - ago_ms)
        if options.has("from-file"):
            return await self._from_file(group_id)
        if options.has("to-current"):
            return await self._current(group_id, partitions)
        scenarios = "[to-offset], [shift-by], [to-datetime], [by-duration], [to-earliest], [to-latest], [to-current]"
        raise UsageError(
            f"Option '[reset-offsets]' requires one of the following scenarios: [{scenarios}, [from-file]]"
        )

    async def _shifted(self, group_id: str, partitions: list[TopicPartition], by: int) -> Offsets:
        committed = await group_offsets(self._admin, group_id)
        for partition in partitions:
            if partition not in committed:
                raise ToolError(
                    f"Cannot shift offset for partition {_name(partition)} since there is no current committed offset"
                )
        return {partition: committed[partition].offset + by for partition in partitions}

    async def _current(self, group_id: str, partitions: list[TopicPartition]) -> Offsets:
        committed = await group_offsets(self._admin, group_id)
        ends = await log_offsets(self._admin, [one for one in partitions if one not in committed], LATEST)
        return {one: committed[one].offset if one in committed else ends[one] for one in partitions}

    async def _at(self, partitions: list[TopicPartition], timestamp: int) -> Offsets:
        """The first records at or after a time; the end where all are older."""
        found = await log_offsets(self._admin, partitions, timestamp)
        older = in_java_order(partition for partition in partitions if found[partition] == -1)
        for partition in older:
            print(
                f"\nWarn: Partition {partition.partition} from topic {partition.topic} is empty. "
                "Falling back to latest known offset."
            )
        return {**found, **await log_offsets(self._admin, older, LATEST)}

    async def _within_log(self, wanted: Offsets) -> Offsets:
        """The same offsets, moved to the log's start or end where they lie outside."""
        partitions = list(wanted)
        starts = await log_offsets(self._admin, partitions, EARLIEST)
        ends = await log_offsets(self._admin, partitions, LATEST)
        bounded = {}
        for partition, offset in wanted.items():
            bounded[partition] = min(max(offset, starts[partition]), ends[partition])
            if bounded[partition] != offset:
                where = "higher than latest" if offset > bounded[partition] else "lower than earliest"
                log(
                    "WARN",
                    f"New offset ({offset}) is {where} offset for topic partition {_name(partition)}. "
                    f"Value will be set to {bounded[partition]}",
                    LOGGER,
                )
        return bounded

    async def _from_file(self, group_id: str) -> Offsets:
        plans = read_csv(self._options.values("from-file")[0], self._options.values("group"))
        if group_id not in plans:
            print_error(f"No reset plan for group {group_id} found")
            return {}
        return await self._within_log(plans[group_id])


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


# Moments


def parse_moment(text: str) -> int:
    """A moment in milliseconds since 1970; without a time zone it is UTC."""
    _, has_time, clock = text.partition("T")
    if not has_time:
        raise _unparsable("Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    given = text if re.search(r"[-+Z]", clock) else f"{text}Z"
    matched = _MOMENT.match(given)
    if matched is None:
        raise _unparsable(f'Unparseable date: "{given}"')
    *numbers, zone = matched.groups()
    year, month, day, hour, minute, second, millisecond = map(int, numbers)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=_zone(zone))
        if millisecond > 999:
            raise ValueError(millisecond)
    except ValueError:
        raise _unparsable(f'Unparseable date: "{given}"') from None
    return int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 1000 + millisecond


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


def parse_duration_ms(text: str) -> int:
    """An ISO 8601 duration of days and less, as Java's Duration reads it."""
    matched = _DURATION.fullmatch(text)
    if matched is None or not any(matched.group(number) for number in (2, 4, 5, 6)) or matched.group(3) in ("T", "t"):
        raise ToolError("Text cannot be parsed to a Duration", "java.time.format.DateTimeParseException")
    sign, days, _, hours, minutes, seconds, fraction = matched.groups()
    total_ms = 0
    for number, unit_ms in ((days, 86_400_000), (hours, 3_600_000), (minutes, 60_000), (seconds, 1_000)):
        total_ms += int(number or 0) * unit_ms
    part_ms = int((fraction or "").ljust(3, "0")[:3])
    total_ms += -part_ms if (seconds or "").startswith("-") else part_ms
    return -total_ms if sign == "-" else total_ms


def _unparsable(message: str) -> ToolError:
    cause = ToolError(message, "java.text.ParseException")
    return ToolError(f"{cause.exception}: {message}", "java.lang.RuntimeException", cause)


# CSV


def read_csv(path: str, groups: list[str]) -> dict[str, Offsets]:
    """The offsets in a file: lines of topic,partition,offset for one group, or with the group in front."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except OSError as error:
        reason = ToolError(path if error.errno == ENOENT else f"{path}: {error.strerror}", _NO_FILE)
        cause = ToolError(f"Unable to read file {path}", "java.io.IOException", reason)
        raise ToolError(f"{cause.exception}: {cause.message}", "java.lang.RuntimeException", cause) from None
    plans: dict[str, Offsets] = {}
    is_short = bool(rows) and len(rows[0]) == 3 and len(groups) == 1
    for number, row in enumerate(rows, 1):
        fields = [groups[0], *row] if is_short else row
        try:
            group_id, topic, partition, offset = fields
            plans.setdefault(group_id, {})[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            form = "topic,partition,offset" if is_short else "group,topic,partition,offset"
            raise ToolError(
                f"line {number} of {path} is {','.join(row)!r}, not {form}", "java.lang.RuntimeException"
            ) from None
    return plans


def format_csv(planned: Mapping[str, Offsets], *, has_group: bool) -> str:
    """The lines that --from-file reads."""
    output = io.StringIO()
    for group_id, offsets in planned.items():
        for partition in in_java_order(offsets):
            texts = [group_id, partition.topic] if has_group else [partition.topic]
            output.write(",".join([*map(_quoted, texts), str(partition.partition), str(offsets[partition])]) + "\n")
    return output.getvalue()


def _quoted(text: str) -> str:
    if len(text) <= _UNQUOTED_SIZE and all(letter >= _FIRST_SAFE for letter in text):
        return text
    return '"' + text.replace('"', '""') + '"'


def in_java_order(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """As a Java map of partitions gives them back."""
    return hash_order(partitions, code=lambda one: 31 * (31 + one.partition) + string_hash(one.topic))


def show_resets(planned: Mapping[str, Offsets]) -> None:
    """The table of new offsets."""
    group_width = max((15, *map(len, planned)))
    topic_width = max((15, *(len(one.topic) for offsets in planned.values() for one in offsets)))
    text = ""
    if planned:
        text = f"\n{'GROUP':<{group_width}} {'TOPIC':<{topic_width}} {'PARTITION':<10} NEW-OFFSET"
    for group_id, offsets in planned.items():
        for one in in_java_order(offsets):
            text += f"\n{group_id:<{group_width}} {one.topic:<{topic_width}} {one.partition:<10} {offsets[one]}"
    print(text)
