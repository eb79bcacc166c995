"""Settings of topics, brokers and groups; quotas; features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.client.admin.calls import AdminCalls, outcome
from ottla.client.errors import KafkaError, error_of
from ottla.wire.config_resources import ConfigSource, ConfigSynonym, ResourceType
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    OpData,
)
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse


class ConfigResource(NamedTuple):
    """A resource that has settings. A broker's name is its id; the empty name stands for all brokers."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower().replace('_', '-')} {self.name or 'default'}"


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    """None for a secret, too."""
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """A change of one setting; APPEND and SUBTRACT are for lists."""

    name: str
    value: str | None = None
    operation: Operation = Operation.SET


QuotaEntity = tuple[tuple[str, str | None], ...]
"""Type and name, such as (("user", "alice"), ("client-id", None)); None is the default of that type. Answers name the
user before the client id."""


class ConfigCalls(AdminCalls):
    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """All settings of each resource, by name. A broker's own are asked of that broker.

        Example:

            topic = ConfigResource(ResourceType.TOPIC, "orders")
            settings = (await admin.describe_configs([topic]))[topic]
            print(settings["retention.ms"].value)
        """

        async def ask(
            left: dict[ConfigResource, None],
        ) -> dict[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
            answers: dict[ConfigResource, dict[str, ConfigEntry] | KafkaError] = {}
            for node_id, asked in _by_broker(left).items():
                request = DescribeConfigsRequest(
                    resources=[
                        DescribeConfigsResource(resource_type=one.type, resource_name=one.name, configuration_keys=None)
                        for one in asked
                    ],
                    include_synonyms=include_synonyms,
                    include_documentation=include_documentation,
                )
                response: DescribeConfigsResponse
                if node_id is None:
                    response = await self._ask_any(request)
                else:
                    await self._brokers()
                    response = await self._cluster.send(node_id, request)
                for one in response.results:
                    entries = {entry.name: _entry(entry) for entry in one.configs}
                    resource = ConfigResource(ResourceType(one.resource_type), one.resource_name)
                    answers[resource] = outcome(one.error_code, one.error_message, entries)
            return answers

        return await self._each(dict.fromkeys(resources), ask)

    async def alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> None:
        """Change some settings and leave the others as they are.

        Example:

            topic = ConfigResource(ResourceType.TOPIC, "orders")
            await admin.alter_configs({topic: [ConfigChange("retention.ms", "60000")]})
        """

        async def ask(
            left: dict[ConfigResource, list[ConfigChange]],
        ) -> dict[ConfigResource, KafkaError | None]:
            answers: dict[ConfigResource, KafkaError | None] = {}
            for node_id, asked in _by_broker(left).items():
                request = IncrementalAlterConfigsRequest(
                    resources=[
                        AlterConfigsResource(
                            resource_type=one.type,
                            resource_name=one.name,
                            configs=[
                                AlterableConfig(name=change.name, config_operation=change.operation, value=change.value)
                                for change in left[one]
                            ],
                        )
                        for one in asked
                    ],
                    validate_only=validate_only,
                )
                response: IncrementalAlterConfigsResponse
                if node_id is None:
                    response = await self._ask_controller(request)
                else:
                    await self._brokers()
                    response = await self._cluster.send(node_id, request)
                for result in response.responses:
                    resource = ConfigResource(ResourceType(result.resource_type), result.resource_name)
                    answers[resource] = outcome(result.error_code, result.error_message, None)
            return answers

        await self._each({resource: list(wanted) for resource, wanted in changes.items()}, ask)

    async def topic_config(self, topic: str) -> dict[str, ConfigEntry]:
        """The settings of one topic.

        Example:

            print((await admin.topic_config("orders"))["retention.ms"].value)
        """
        resource = ConfigResource(ResourceType.TOPIC, topic)
        return (await self.describe_configs([resource]))[resource]

    async def set_topic_config(self, topic: str, settings: Mapping[str, str | None]) -> None:
        """Change settings of one topic; None takes the broker's default again.

        Example:

            await admin.set_topic_config("orders", {"retention.ms": "60000", "cleanup.policy": None})
        """
        changes = [
            ConfigChange(name, value, Operation.DELETE if value is None else Operation.SET)
            for name, value in settings.items()
        ]
        await self.alter_configs({ConfigResource(ResourceType.TOPIC, topic): changes})

    async def list_config_resources(self, types: Iterable[ResourceType] = ()) -> list[ConfigResource]:
        """Everything of these types (of all, if none is named) that has settings.

        Example:

            print(await admin.list_config_resources([ResourceType.TOPIC]))
        """

        async def ask() -> list[ConfigResource]:
            request = ListConfigResourcesRequest(resource_types=[int(one) for one in types])
            response: ListConfigResourcesResponse = await self._ask_any(request)
            if response.error_code:
                raise error_of(response.error_code)
            return sorted(
                ConfigResource(ResourceType(one.resource_type), one.resource_name) for one in response.config_resources
            )

        return await self._one(ask)

    async def describe_client_quotas(
        self, entity: Mapping[str, str | None] | None = None, *, is_strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Quotas of the users, client ids and addresses that match: by type a name, or None for the default; all, if
        nothing is given. Strict leaves out those that have a further type.

        Example:

            print(await admin.describe_client_quotas({"user": "alice"}))
        """

        async def ask() -> dict[QuotaEntity, dict[str, float]]:
            components = [
                ComponentData(entity_type=kind, match_type=1 if name is None else 0, match=name)
                for kind, name in (entity or {}).items()
            ]
            request = DescribeClientQuotasRequest(components=components, strict=is_strict)
            response: DescribeClientQuotasResponse = await self._ask_any(request)
            if response.error_code:
                raise error_of(response.error_code, response.error_message)
            return {
                _entity((part.entity_type, part.entity_name) for part in entry.entity): {
                    value.key: value.value for value in entry.values
                }
                for entry in response.entries or []
            }

        return await self._one(ask)

    async def alter_client_quotas(self, changes: Mapping[QuotaEntity, Mapping[str, float | None]]) -> None:
        """Set quotas (`producer_byte_rate`, `consumer_byte_rate`, `request_percentage` ...); None removes one.

        Example:

            await admin.alter_client_quotas({(("user", "alice"),): {"producer_byte_rate": 1_000_000.0}})
        """

        async def ask(
            left: dict[QuotaEntity, Mapping[str, float | None]],
        ) -> dict[QuotaEntity, KafkaError | None]:
            request = AlterClientQuotasRequest(
                entries=[
                    AlterClientQuotasRequestEntryData(
                        entity=[
                            AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
                            for kind, name in entity
                        ],
                        ops=[
                            OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                            for key, value in wanted.items()
                        ],
                    )
                    for entity, wanted in left.items()
                ]
            )
            response: AlterClientQuotasResponse = await self._ask_controller(request)
            answers = {
                _entity((part.entity_type, part.entity_name) for part in entry.entity): outcome(
                    entry.error_code, entry.error_message, None
                )
                for entry in response.entries
            }
            return {entity: answers[_entity(entity)] for entity in left if _entity(entity) in answers}

        await self._each(changes, ask)

    async def update_features(self, levels: Mapping[str, int], *, allow_downgrade: bool = False) -> None:
        """Finalize features at these levels.

        Example:

            await admin.update_features({"group.version": 1})
        """

        async def ask() -> None:
            request = UpdateFeaturesRequest(
                timeout_ms=self._timeout_ms,
                feature_updates=[
                    FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=2 if allow_downgrade else 1)
                    for name, level in levels.items()
                ],
            )
            response: UpdateFeaturesResponse = await self._ask_controller(request)
            if response.error_code:
                raise error_of(response.error_code, response.error_message)
            for result in response.results:
                if result.error_code:
                    raise error_of(result.error_code, f"{result.feature}: {result.error_message}")

        await self._one(ask)


def _entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Kafka answers with the parts of an entity in any order: user before client id."""
    return tuple(sorted(parts, key=lambda part: part[0], reverse=True))


def _by_broker(resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    """The broker to ask: a broker about its own settings, any broker about all others."""
    asked: dict[int | None, list[ConfigResource]] = {}
    for one in resources:
        is_one_broker = one.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and one.name != ""
        asked.setdefault(int(one.name) if is_one_broker else None, []).append(one)
    return asked


def _entry(entry: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        entry.name,
        entry.value,
        _source(entry.config_source),
        entry.read_only,
        entry.is_sensitive,
        tuple(ConfigSynonym(one.name, one.value, _source(one.source)) for one in entry.synonyms),
        entry.documentation or None,
    )


def _source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN
