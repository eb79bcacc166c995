"""The content of DescribeConfigs: every setting with its value, the value's source and whether it is hidden.

Sources are searched in Kafka's order: a topic's or group's own setting, this broker's dynamic one, the dynamic one of
all brokers, the file, Kafka's default. The list of synonyms holds every source that has a value, the winning one first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ottla.config.broker import BROKER_KEYS, DYNAMIC_BROKER_KEYS, BrokerConfig
from ottla.config.groups import CLIENT_METRICS_KEYS, GROUP_KEYS, group_synonym, group_values
from ottla.config.hash_order import hash_order, string_hash
from ottla.config.keys import READ_ONLY, ConfigKey, ConfigType, Value, format_value
from ottla.config.own import OWN_KEYS
from ottla.config.synonyms import TOPIC_SYNONYMS, broker_synonyms, without_listener_prefix
from ottla.config.topic import TOPIC_KEYS, topic_values
from ottla.wire.config_resources import ConfigSource, ConfigSynonym


class DescribedConfig(NamedTuple):
    """One setting as a client gets it. A secret's value is None."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    type: ConfigType
    synonyms: list[ConfigSynonym]

    @property
    def doc(self) -> str:
        from ottla.config.docs import DOCS

        base = without_listener_prefix(self.name)
        return DOCS.get(self.name if base is None else base, "")


def describe_topic(overrides: Mapping[str, str], broker: BrokerConfig) -> list[DescribedConfig]:
    values = topic_values(overrides, broker)
    entries: list[DescribedConfig] = []
    for key in _shown(TOPIC_KEYS, overrides):
        name = key.name
        value = _text(values.get(name, key.default_value))
        synonyms: list[ConfigSynonym] = []
        if name in overrides:
            synonyms.append(ConfigSynonym(name, value, ConfigSource.DYNAMIC_TOPIC))
        if name in TOPIC_SYNONYMS:
            synonyms += _broker_chain(TOPIC_SYNONYMS[name][0], broker, is_sensitive=key.is_sensitive)
        entries.append(DescribedConfig(name, value, _source(synonyms), False, False, key.type, synonyms))
    return _in_kafkas_order(entries, TOPIC_KEYS, overrides)


def describe_broker(broker: BrokerConfig) -> list[DescribedConfig]:
    """Every setting of a node that is not internal, and all that it was given."""
    given = {**broker.static, **broker.dynamic_default, **broker.dynamic}
    all_names = [name for name, key in BROKER_KEYS.items() if not key.is_internal or name in given]
    all_names += [name for name in given if name not in BROKER_KEYS]
    return _in_kafkas_order([_broker_entry(name, broker, given) for name in all_names], BROKER_KEYS, given)


def describe_broker_defaults(broker: BrokerConfig) -> list[DescribedConfig]:
    """The dynamic settings of all brokers: the resource with an empty name."""
    entries: list[DescribedConfig] = []
    for name, text in broker.dynamic_default.items():
        entry = _broker_entry(name, broker, broker.dynamic_default)
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER
        synonyms = [synonym for synonym in entry.synonyms if synonym.source is source]
        value = None if entry.is_sensitive else text
        entries.append(entry._replace(value=value, source=_source(synonyms), synonyms=synonyms))
    return hash_order(entries, _hash)


def describe_group(overrides: Mapping[str, str], broker: BrokerConfig) -> list[DescribedConfig]:
    values = group_values(overrides, broker)
    entries: list[DescribedConfig] = []
    for key in _shown(GROUP_KEYS, overrides):
        name = key.name
        value = _text(values.get(name, key.default_value))
        synonyms: list[ConfigSynonym] = []
        if name in overrides:
            synonyms.append(ConfigSynonym(name, value, ConfigSource.GROUP))
        broker_name = group_synonym(name)
        if broker_name is not None:
            synonyms += _broker_chain(broker_name, broker, is_sensitive=False)
        else:
            synonyms.append(ConfigSynonym(name, _text(key.default_value), ConfigSource.DEFAULT))
        entries.append(DescribedConfig(name, value, _source(synonyms), False, False, key.type, synonyms))
    return _in_kafkas_order(entries, GROUP_KEYS, overrides)


def describe_client_metrics(overrides: Mapping[str, str]) -> list[DescribedConfig]:
    entries: list[DescribedConfig] = []
    for key in _shown(CLIENT_METRICS_KEYS, overrides):
        name = key.name
        if name in overrides:
            value = _text(key.parse(overrides[name]))
            synonyms = [ConfigSynonym(name, value, ConfigSource.CLIENT_METRICS)]
        else:
            value = _text(key.default_value)
            synonyms = []
        entries.append(DescribedConfig(name, value, _source(synonyms), False, False, key.type, synonyms))
    return _in_kafkas_order(entries, CLIENT_METRICS_KEYS, overrides)


def broker_key(name: str) -> ConfigKey | None:
    """The declaration of a broker's setting, also of one that only exists dynamically or belongs to a listener."""
    key = BROKER_KEYS.get(name) or DYNAMIC_BROKER_KEYS.get(name)
    if key is None:
        for synonym in broker_synonyms(name)[1:]:
            key = BROKER_KEYS.get(synonym)
            if key is not None:
                break
    return key


def is_secret(name: str) -> bool:
    """Whether the value of a broker's setting is never shown. An unknown name could be anything, a password too."""
    key = broker_key(name)
    if key is not None:
        return key.is_sensitive
    own = OWN_KEYS.get(name)
    return own is None or own.type is ConfigType.PASSWORD


def _broker_entry(name: str, broker: BrokerConfig, given: Mapping[str, str]) -> DescribedConfig:
    key = broker_key(name)
    own = OWN_KEYS.get(name)
    is_sensitive = is_secret(name)
    if is_sensitive:
        value = None
    elif name in BROKER_KEYS:
        value = _text(broker.value(name))
    else:
        value = given.get(name)
    synonyms = _broker_chain(name, broker, is_sensitive=is_sensitive)
    is_read_only = key is None or key.name != name or key.update_mode == READ_ONLY
    type = key.type if key is not None else own.type if own is not None else ConfigType.UNKNOWN
    return DescribedConfig(name, value, _source(synonyms), is_read_only, is_sensitive, type, synonyms)


def _broker_chain(name: str, broker: BrokerConfig, *, is_sensitive: bool) -> list[ConfigSynonym]:
    """Every value that the names standing for a setting have. The first entry is the setting's own name: as in Kafka, a
    value given only under an older name is not listed.
    """
    chain: list[ConfigSynonym] = []
    names = broker_synonyms(name)
    for layer, source in (
        (broker.dynamic, ConfigSource.DYNAMIC_BROKER),
        (broker.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (broker.static, ConfigSource.STATIC_BROKER),
    ):
        chain += [
            ConfigSynonym(other, None if is_sensitive else layer[other], source) for other in names if other in layer
        ]
    for other in names:
        key = BROKER_KEYS.get(other)
        if key is not None and key.default is not None and not key.is_required:
            value = None if is_sensitive else _text(key.default_value)
            chain.append(ConfigSynonym(other, value, ConfigSource.DEFAULT))
    for index, synonym in enumerate(chain):
        if synonym.name == name:
            return chain[index:]
    return []


def _shown(keys: Mapping[str, ConfigKey], overrides: Mapping[str, str]) -> Iterator[ConfigKey]:
    for name, key in keys.items():
        if not key.is_internal or name in overrides:
            yield key


def _in_kafkas_order(
    entries: list[DescribedConfig], keys: Mapping[str, ConfigKey], given: Mapping[str, str]
) -> list[DescribedConfig]:
    """Sorts as Kafka does: first what is internal or not declared, in the order given, then what is declared."""
    by_name = {entry.name: entry for entry in entries}
    declared = [entry for entry in entries if entry.name in keys and not keys[entry.name].is_internal]
    for entry in declared:
        del by_name[entry.name]
    others = [by_name[name] for name in hash_order(given, string_hash) if name in by_name]
    return others + hash_order(declared, _hash)


def _hash(entry: DescribedConfig) -> int:
    return string_hash(entry.name)


def _source(synonyms: list[ConfigSynonym]) -> ConfigSource:
    return synonyms[0].source if synonyms else ConfigSource.DEFAULT


def _text(value: Value) -> str | None:
    return None if value is None else format_value(value)
