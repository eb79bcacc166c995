from __future__ import annotations

import pytest

from ottla.config import BROKER_KEYS, BrokerConfig, ConfigError, Listener, Voter
from ottla.config.implemented import IMPLEMENTED, REMOVED

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "log.dirs": "/data",
}


def node(**changes: str) -> BrokerConfig:
    return BrokerConfig.parse(NODE | {name.replace("_", "."): value for name, value in changes.items()})


def test_what_is_not_set_has_kafkas_default() -> None:
    config = node()
    assert config.message_max_bytes == 1_048_588
    assert config.log_retention_time_ms == 7 * 24 * 3_600_000
    assert config.log_cleanup_policy == ("delete",)
    assert config.broker_rack is None
    assert config.log_cleaner_min_cleanable_ratio == 0.5
    assert config.warnings == []


def test_listeners_are_parsed_and_told_apart_by_role() -> None:
    config = node(advertised_listeners="PLAINTEXT://example.org:19092")
    assert config.listeners[0] == Listener("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT")
    assert [listener.name for listener in config.broker_listeners] == ["PLAINTEXT"]
    assert [listener.port for listener in config.controller_listeners] == [9093]
    assert config.advertised_broker_listeners == (Listener("PLAINTEXT", "example.org", 19092, "PLAINTEXT"),)
    assert config.voters == (Voter(1, "127.0.0.1", 9093),)
    assert config.inter_broker_listener == "PLAINTEXT"


def test_ipv6_hosts_stand_in_brackets() -> None:
    config = node(listeners="PLAINTEXT://[::1]:9092,CONTROLLER://:9093")
    assert config.listeners[0].host == "::1"
    assert str(config.listeners[0]) == "PLAINTEXT://[::1]:9092"
    assert config.listeners[1].host == ""


def test_a_listener_takes_its_protocol_from_the_map() -> None:
    config = node(
        listeners="INSIDE://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        listener_security_protocol_map="INSIDE:PLAINTEXT, OUTSIDE:SASL_SSL,CONTROLLER:plaintext",
        inter_broker_listener_name="inside",
    )
    assert [listener.security_protocol for listener in config.listeners] == ["PLAINTEXT", "PLAINTEXT"]
    assert config.security_protocols["OUTSIDE"] == "SASL_SSL"
    assert config.inter_broker_listener == "INSIDE"


def test_what_would_leave_something_unguarded_is_refused() -> None:
    with pytest.raises(ConfigError, match="Ottla runs no Java classes"):
        node(authorizer_class_name="com.example.ForeignAuthorizer")
    assert node(authorizer_class_name="").authorizer_class_name == ""
    assert node(remote_log_storage_system_enable="false").warnings


def test_the_authorizers_settings_are_read_with_semicolons_between_super_users() -> None:
    config = BrokerConfig.parse(
        NODE
        | {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin; User:CN=node,O=a;",
            "allow.everyone.if.no.acl.found": " True",
        }
    )
    assert config.has_authorizer
    assert config.super_users == ("User:admin", "User:CN=node,O=a")
    assert config.allow_everyone_if_no_acl_found
    assert config.warnings == []
    assert not node().has_authorizer
    assert not node().allow_everyone_if_no_acl_found


def test_super_users_without_a_type_are_refused_and_without_an_authorizer_have_no_effect() -> None:
    with pytest.raises(ConfigError, match=r"super\.users.*User:admin"):
        node(authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer", super_users="admin")
    assert any("super.users has no effect" in warning for warning in node(super_users="User:admin").warnings)


def test_broker_id_stands_in_for_node_id_and_the_reverse() -> None:
    without = {name: value for name, value in NODE.items() if name != "node.id"}
    assert BrokerConfig.parse(without | {"broker.id": "1"}).node_id == 1
    assert node().broker_id == 1


def test_log_dir_stands_in_for_log_dirs() -> None:
    without = {name: value for name, value in NODE.items() if name != "log.dirs"}
    assert BrokerConfig.parse(without | {"log.dir": "/one"}).log_directories == ("/one",)
    assert node(log_dirs="/a, /b").log_directories == ("/a", "/b")
    assert node(log_dirs="/a,/b").metadata_log_directory == "/a"


@pytest.mark.parametrize(
    ("changes", "expected_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "5"}, 5),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finest_unit_of_retention_wins(changes: dict[str, str], expected_ms: int) -> None:
    assert BrokerConfig.parse(NODE | changes).log_retention_time_ms == expected_ms


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"Unknown setting log\.retenton\.ms; did you mean log\.retention\.ms\?"):
        node(log_retenton_ms="5")
    with pytest.raises(ConfigError, match=r"Unknown setting zzz$"):
        node(zzz="5")


def test_a_known_setting_without_effect_is_told_once() -> None:
    config = node(num_io_threads="4", zookeeper_connect="localhost")
    assert config.num_io_threads == 4
    assert len(config.warnings) == 2
    assert "num.io.threads" in config.warnings[0] and "removed" in config.warnings[1]


@pytest.mark.parametrize(
    "name", ["listener.name.plaintext.num.io.threads", "sasl.some.plugin", "ssl.other", "rsm.config.x"]
)
def test_settings_of_plug_ins_pass_with_a_warning(name: str) -> None:
    config = BrokerConfig.parse(NODE | {name: "x"})
    assert config.static[name] == "x"
    assert [warning for warning in config.warnings if name in warning]


@pytest.mark.parametrize("prefix", ["", "listener.name.plaintext."])
@pytest.mark.parametrize("name", ["ssl.engine.factory.class", "ssl.provider", "security.providers"])
def test_a_class_of_javas_for_tls_is_refused_with_the_reason(prefix: str, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{prefix}{name} cannot be com.example.Own: Ottla does not run Java classes"):
        BrokerConfig.parse(NODE | {prefix + name: "com.example.Own"})


def test_listeners_that_start_early_are_listeners() -> None:
    assert node(early_start_listeners="controller,PLAINTEXT").early_start_listeners == ("controller", "PLAINTEXT")
    with pytest.raises(ConfigError, match=r"early\.start\.listeners"):
        node(early_start_listeners="OTHER")


def test_a_setting_with_the_prefix_of_a_listener_has_an_effect_there() -> None:
    config = BrokerConfig.parse(NODE | {"listener.name.plaintext.ssl.client.auth": "required"})
    assert not config.warnings
    assert config.of_listener("PLAINTEXT", "ssl.client.auth") == "required"
    assert config.of_listener("CONTROLLER", "ssl.client.auth") == "none"
    assert config.has_of_listener("PLAINTEXT", "ssl.client.auth")
    assert not config.has_of_listener("CONTROLLER", "ssl.client.auth")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"message.max.bytes": "many"}, "message.max.bytes"),
        ({"message.max.bytes": "1_000"}, "message.max.bytes"),
        ({"message.max.bytes": "2147483648"}, "message.max.bytes"),
        ({"num.partitions": "0"}, "num.partitions"),
        ({"compression.type": "brotli"}, "compression.type"),
        ({"auto.create.topics.enable": "yes"}, "auto.create.topics.enable"),
        ({"log.cleanup.policy": "shred"}, "log.cleanup.policy"),
        ({"log.retention.ms": "0"}, "log.retention.ms"),
        ({"log.roll.ms": "0"}, "log.roll.ms"),
        ({"listeners": "9092"}, "listeners"),
        ({"listeners": "PLAINTEXT://127.0.0.1:99999,CONTROLLER://127.0.0.1:1"}, "listeners"),
        ({"listeners": "PLAINTEXT://127.0.0.1:1,PLAINTEXT://127.0.0.1:2"}, "listeners"),
        ({"listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:1"}, "listeners"),
        ({"listeners": "PLAINTEXT://127.0.0.1:1"}, "controller.listener.names"),
        ({"listeners": "CONTROLLER://127.0.0.1:1"}, "listeners"),
        ({"listeners": "FOO://127.0.0.1:1,CONTROLLER://127.0.0.1:2"}, "listener.security.protocol.map"),
        ({"listeners": "PLAINTEXT://0.0.0.0:1,CONTROLLER://:2"}, "advertised.listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "advertised.listeners"),
        ({"advertised.listeners": "SSL://x:1"}, "listener.security.protocol.map"),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "listener.security.protocol.map"),
        ({"listener.security.protocol.map": "PLAINTEXT:FOO"}, "listener.security.protocol.map"),
        ({"inter.broker.listener.name": "NOPE"}, "inter.broker.listener.name"),
        ({"controller.quorum.voters": "2@127.0.0.1:1"}, "controller.quorum.voters"),
        ({"controller.quorum.voters": "1@127.0.0.1"}, "controller.quorum.voters"),
        ({"controller.quorum.voters": "1@a:1,1@b:2"}, "controller.quorum.voters"),
        ({"process.roles": "broker,observer"}, "process.roles"),
        ({"process.roles": "broker"}, "controller.quorum.voters"),
        ({"node.id": "-1"}, "node.id"),
        ({"broker.id": "2"}, "broker.id"),
        ({"broker.heartbeat.interval.ms": "5000"}, "broker.heartbeat.interval.ms"),
        ({"replica.fetch.wait.max.ms": "40000"}, "replica.fetch.wait.max.ms"),
        ({"log.cleaner.dedupe.buffer.size": "1000"}, "log.cleaner.dedupe.buffer.size"),
        ({"queued.max.request.bytes": "100"}, "queued.max.request.bytes"),
        ({"max.connections.per.ip": "0"}, "max.connections.per.ip"),
        ({"max.connections.per.ip.overrides": "zz"}, "max.connections.per.ip.overrides"),
        ({"group.consumer.session.timeout.ms": "1"}, "group.consumer.min.session.timeout.ms"),
        ({"leader.replication.throttled.rate": "5"}, "leader.replication.throttled.rate"),
    ],
)
def test_a_wrong_value_is_refused_by_name(changes: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.parse(NODE | changes)
    assert named in str(refused.value)


@pytest.mark.parametrize("name", ["process.roles", "node.id", "controller.listener.names"])
def test_a_required_setting_that_is_missing_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        BrokerConfig.parse({other: value for other, value in NODE.items() if other != name})


def test_dynamic_settings_lie_over_static_ones() -> None:
    config = node(log_retention_minutes="3", max_connections="10")
    changed = config.with_dynamic({"log.retention.ms": "9", "max.connections": "20"}, {"max.connections": "30"})
    assert changed.log_retention_time_ms == 9
    assert changed.log_retention_minutes is None
    assert changed.max_connections == 30
    assert config.max_connections == 10


def test_stored_settings_that_cannot_hold_do_not_stop_a_start() -> None:
    changed = node().with_dynamic({"node.id": "7", "max.connections": "many", "log.retention.ms": "5"}, {})
    assert changed.node_id == 1
    assert changed.max_connections == 2**31 - 1
    assert changed.log_retention_ms == 5
    assert len([warning for warning in changed.warnings if "dynamic" in warning]) == 2


def test_a_secret_is_not_printed() -> None:
    config = node(ssl_keystore_password="hunter2")
    assert config.ssl_keystore_password == "hunter2"
    assert "hunter2" not in repr(config)


def test_a_configuration_is_frozen() -> None:
    with pytest.raises(AttributeError):
        node().max_connections = 5  # type: ignore[misc, unused-ignore]


def test_the_lists_of_names_hold_names() -> None:
    assert set(BROKER_KEYS) >= IMPLEMENTED
    assert not set(BROKER_KEYS) & REMOVED
