"""DescribeConfigs v1-v4: settings of topics, brokers, loggers, client metrics and groups, and where they came from."""

from __future__ import annotations

from ottla.broker.apis.config_access import config_denial
from ottla.broker.caller import Caller
from ottla.broker.ground import Ground
from ottla.broker.serving.api import Api, Need
from ottla.broker.serving.loggers import loggers
from ottla.cluster.image import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from ottla.cluster.topic import why_topic_name_is_invalid
from ottla.config import ConfigType
from ottla.config.describe import (
    DescribedConfig,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from ottla.wire.acls import AclOperation, AclResource
from ottla.wire.config_resources import ConfigSource, ResourceType
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

BROKER_LOGGER_RESOURCE = int(ResourceType.BROKER_LOGGER)
MAX_ENTRIES = 1_000_000
"""A few bytes of request make hundreds of entries: without a bound one request could ask for all memory."""


def describe_configs(request: DescribeConfigsRequest, ground: Ground, caller: Caller) -> DescribeConfigsResponse:
    results = []
    entry_count = 0
    # Thousands of topics have the same settings, most of them none: they share one description.
    known: dict[tuple[object, ...], list[DescribeConfigsResourceResult]] = {}
    for resource in request.resources:
        result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            if entry_count > MAX_ENTRIES:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Too many resources to describe at once")
            denied = config_denial(
                caller, AclOperation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name
            )
            if denied is not None:
                raise KafkaError(denied, denied.text)
            check_resource(resource.resource_type, resource.resource_name, ground)
            key = _same_description(resource, ground)
            told = known.get(key)
            if told is None:
                told = known[key] = [
                    _told(entry, with_synonyms=request.include_synonyms, with_doc=request.include_documentation)
                    for entry in _entries(resource, ground)
                ]
            result.configs = told
            entry_count += len(told)
        except KafkaError as error:
            result.error_code = error.code
            result.error_message = error.message
        results.append(result)
    return DescribeConfigsResponse(results=results)


def check_resource(kind: int, name: str, ground: Ground) -> None:
    """KafkaError when there is no such resource, or it is not this node's to describe."""
    if kind == TOPIC_RESOURCE:
        problem = why_topic_name_is_invalid(name)
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        if name not in ground.image.topics_by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    elif kind == BROKER_RESOURCE:
        if name:
            check_is_this_node(name, ground)
    elif kind == BROKER_LOGGER_RESOURCE:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        check_is_this_node(name, ground)
    elif kind == CLIENT_METRICS_RESOURCE:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    elif kind == GROUP_RESOURCE:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")


def _same_description(resource: DescribeConfigsResource, ground: Ground) -> tuple[object, ...]:
    """The key under which resources share one description."""
    kind, name = resource.resource_type, resource.resource_name
    own = ground.image.configs.get((kind, name), {})
    is_default = kind == BROKER_RESOURCE and not name
    return kind, is_default, tuple(own.items()), tuple(resource.configuration_keys or ())


def _entries(resource: DescribeConfigsResource, ground: Ground) -> list[DescribedConfig]:
    entries = _all_entries(resource, ground)
    names = resource.configuration_keys
    return [entry for entry in entries if entry.name in names] if names else entries


def _all_entries(resource: DescribeConfigsResource, ground: Ground) -> list[DescribedConfig]:
    kind, name = resource.resource_type, resource.resource_name
    own = ground.image.configs.get((kind, name), {})
    if kind == TOPIC_RESOURCE:
        return describe_topic(own, ground.config)
    if kind == BROKER_RESOURCE:
        return describe_broker(ground.config) if name else describe_broker_defaults(ground.config)
    if kind == BROKER_LOGGER_RESOURCE:
        source = ConfigSource.DYNAMIC_BROKER_LOGGER
        return [
            DescribedConfig(logger, level, source, False, False, ConfigType.UNKNOWN, [])
            for logger, level in loggers().items()
        ]
    if kind == CLIENT_METRICS_RESOURCE:
        return describe_client_metrics(own)
    return describe_group(own, ground.config)


def check_is_this_node(name: str, ground: Ground) -> None:
    """KafkaError if the request asks for another broker's settings: only a broker itself knows its own."""
    node_id = ground.node_id
    digits = name[1:] if name[:1] in ("-", "+") else name
    if not (digits.isascii() and digits.isdecimal()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {name}")


def _told(entry: DescribedConfig, *, with_synonyms: bool, with_doc: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=(
            [
                DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
                for synonym in entry.synonyms
            ]
            if with_synonyms
            else []
        ),
        config_type=entry.type,
        documentation=entry.doc if with_doc else None,
    )


api = Api(
    key=32,
    handler=describe_configs,
    needs=(
        Need(AclOperation.DESCRIBE_CONFIGS, AclResource.TOPIC),
        Need(AclOperation.DESCRIBE_CONFIGS, AclResource.GROUP),
        Need(AclOperation.DESCRIBE_CONFIGS, AclResource.CLUSTER),
    ),
)
