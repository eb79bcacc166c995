"""Settings that live in the metadata log: of topics, brokers (one or all), client metrics and groups."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from ottla.cluster.image import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from ottla.cluster.topic import why_topic_name_is_invalid
from ottla.config import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    ConfigKey,
    ConfigType,
    GroupConfig,
    TopicConfig,
)
from ottla.controller.view import MAX_RECORDS_PER_COMMAND, View
from ottla.machine import Decision
from ottla.wire import Message
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages import alter_configs as alter
from ottla.wire.messages import incremental_alter_configs as incremental
from ottla.wire.messages.records.clear_elr_record import ClearElrRecord
from ottla.wire.messages.records.config_record import ConfigRecord

_KEYS: dict[int, Mapping[str, ConfigKey]] = {
    TOPIC_RESOURCE: TOPIC_KEYS,
    BROKER_RESOURCE: BROKER_KEYS,
    CLIENT_METRICS_RESOURCE: CLIENT_METRICS_KEYS,
    GROUP_RESOURCE: GROUP_KEYS,
}


class Operation(IntEnum):
    """What IncrementalAlterConfigs does to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def incremental_alter_configs(
    view: View, request: incremental.IncrementalAlterConfigsRequest
) -> Decision[incremental.IncrementalAlterConfigsResponse]:
    """Change some settings of resources and leave the others. One resource is altered as a whole or not at all."""
    records: list[ConfigRecord] = []
    responses = []
    twice = _named_twice(request.resources)
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        error: KafkaError | None = None
        try:
            if (kind, name) in twice:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            if len({config.name for config in resource.configs}) != len(resource.configs):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
            before = view.image.configs.get((kind, name), {})
            changed = _changed(view, kind, before, resource.configs)
            altered = _records(view, kind, name, before, changed)
            _check_size(records, altered)
            records += altered
        except KafkaError as raised:
            error = raised
        responses.append(
            incremental.AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
                resource_type=kind,
                resource_name=name,
            )
        )
    return Decision(
        [] if request.validate_only else _with_cleared_elrs(view, records),
        incremental.IncrementalAlterConfigsResponse(responses=responses),
    )


def alter_configs(view: View, request: alter.AlterConfigsRequest) -> Decision[alter.AlterConfigsResponse]:
    """Replace all settings of resources: a setting that is not named goes back to its default."""
    records: list[ConfigRecord] = []
    responses = []
    twice = _named_twice(request.resources)
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        error: KafkaError | None = None
        try:
            if (kind, name) in twice:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            nulls = [config.name for config in resource.configs if config.value is None]
            if nulls:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for: {','.join(nulls)}")
            before = view.image.configs.get((kind, name), {})
            changed: dict[str, str | None] = {config.name: config.value for config in resource.configs}
            changed.update(dict.fromkeys(key for key in before if key not in changed))
            altered = _records(view, kind, name, before, changed)
            _check_size(records, altered)
            records += altered
        except KafkaError as raised:
            error = raised
        responses.append(
            alter.AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
                resource_type=kind,
                resource_name=name,
            )
        )
    written = [] if request.validate_only else _with_cleared_elrs(view, records)
    return Decision(written, alter.AlterConfigsResponse(responses=responses))


def check_topic_configs(view: View, configs: Mapping[str, str]) -> None:
    """KafkaError(INVALID_CONFIG) if a topic must not have these settings."""
    if configs:
        TopicConfig.parse(configs, view.config)


def _named_twice(resources: list[incremental.AlterConfigsResource] | list[alter.AlterConfigsResource]) -> set[object]:
    seen: set[object] = set()
    twice: set[object] = set()
    for resource in resources:
        key = (resource.resource_type, resource.resource_name)
        (twice if key in seen else seen).add(key)
    return twice


def _changed(
    view: View, kind: int, before: Mapping[str, str], configs: list[incremental.AlterableConfig]
) -> dict[str, str | None]:
    changed: dict[str, str | None] = {}
    for config in configs:
        key, value = config.name, config.value
        if config.config_operation == Operation.DELETE:
            changed[key] = None
            continue
        if config.config_operation not in (Operation.SET, Operation.APPEND, Operation.SUBTRACT):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation {config.config_operation}.")
        if value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {key}")
        if config.config_operation == Operation.SET:
            changed[key] = value
            continue
        known = _KEYS.get(kind, {}).get(key)
        if known is None or known.type is not ConfigType.LIST:
            name = Operation(config.config_operation).name
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Can't {name} to key {key} because its type is not LIST.")
        current = before.get(key)
        if current is None:
            current = _default(view, kind, key)
        parts = [part for part in current.split(",") if part]
        for part in value.split(","):
            if config.config_operation == Operation.APPEND:
                if part not in parts:
                    parts.append(part)
            elif part in parts:
                parts.remove(part)
        changed[key] = ",".join(parts)
    return changed


def _default(view: View, kind: int, key: str) -> str:
    """What an APPEND to a setting that was never set appends to."""
    value: object = None
    if kind == TOPIC_RESOURCE:
        value = TopicConfig.parse({}, view.config).value(key)
    elif kind == BROKER_RESOURCE:
        value = view.config.value(key)
    return ",".join(map(str, value)) if isinstance(value, tuple) else ""


def _records(
    view: View, kind: int, name: str, before: Mapping[str, str], changed: Mapping[str, str | None]
) -> list[ConfigRecord]:
    after = dict(before)
    for key, value in changed.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = value
    _check_resource(view, kind, name, after)
    return [
        ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        for key, value in changed.items()
        # A record is written even for unchanged values: an unchanged file path makes brokers read the file again.
        if kind == BROKER_RESOURCE or before.get(key) != value
    ]


def _check_resource(view: View, kind: int, name: str, configs: dict[str, str]) -> None:
    if kind == TOPIC_RESOURCE:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        problem = why_topic_name_is_invalid(name)
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        check_topic_configs(view, configs)
        if name not in view.image.topics_by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    elif kind == BROKER_RESOURCE:
        if name:
            if not name.lstrip("-").isdigit():
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.")
            if int(name) < 0:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")
            if int(name) not in view.image.brokers:
                raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {name} found.")
    elif kind == CLIENT_METRICS_RESOURCE:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
        for key, value in configs.items():
            known = CLIENT_METRICS_KEYS.get(key)
            if known is None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
            known.parse(value)
    elif kind == GROUP_RESOURCE:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        GroupConfig.parse(configs, view.config)
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type {kind}.")


def _with_cleared_elrs(view: View, records: list[ConfigRecord]) -> list[Message]:
    """A change of `min.insync.replicas` may end the eligibility of eligible leaders, so the ELRs are cleared."""
    written: list[Message] = [*records]
    if view.is_elr_enabled:
        altered = [record for record in records if record.name == "min.insync.replicas"]
        if any(record.resource_type == BROKER_RESOURCE for record in altered):
            written.append(ClearElrRecord(topic_name=""))
        else:
            written += [ClearElrRecord(topic_name=record.resource_name) for record in altered]
    return written


def _check_size(records: list[ConfigRecord], more: list[ConfigRecord]) -> None:
    if len(records) + len(more) > MAX_RECORDS_PER_COMMAND:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
