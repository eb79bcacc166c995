"""Settings of brokers, topics, groups and client metrics under Kafka's names: typed, bounded, described."""

from ottla.config.broker import BROKER_KEYS, BrokerConfig
from ottla.config.groups import CLIENT_METRICS_KEYS, GROUP_KEYS, ClientMetricsConfig, GroupConfig
from ottla.config.keys import ConfigError, ConfigKey, ConfigType
from ottla.config.listeners import Listener, Voter
from ottla.config.properties import parse_properties
from ottla.config.topic import TOPIC_KEYS, TopicConfig

__all__ = [
    "BROKER_KEYS",
    "CLIENT_METRICS_KEYS",
    "GROUP_KEYS",
    "TOPIC_KEYS",
    "BrokerConfig",
    "ClientMetricsConfig",
    "ConfigError",
    "ConfigKey",
    "ConfigType",
    "GroupConfig",
    "Listener",
    "TopicConfig",
    "Voter",
    "parse_properties",
]
