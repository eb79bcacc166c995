"""What has settings, and where the value of a setting comes from, numbered as in DescribeConfigs and AlterConfigs."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where the value of a setting comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8

    @property
    def kafka_name(self) -> str:
        """The name in Kafka's admin client, which its tools print."""
        if self is ConfigSource.UNKNOWN:
            return self.name
        prefix = "DYNAMIC_" if self in (ConfigSource.CLIENT_METRICS, ConfigSource.GROUP) else ""
        return f"{prefix}{self.name}_CONFIG"


class ConfigSynonym(NamedTuple):
    """A place that has a value for a setting: the winning one, or one that it overrides."""

    name: str
    value: str | None
    source: ConfigSource
