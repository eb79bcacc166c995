"""With what a node logs in to others, and how often it complains."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import pytest

from ottla.broker.peers.security import (
    LOG_EVERY_S,
    NodeSecurity,
    Troubles,
    broker_security,
    controller_security,
    credentials_of,
    explain,
)
from ottla.config import BrokerConfig, ConfigError
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse
from tests.interop.secured_kafka import jaas

NODE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094",
    "listeners": "SECURE://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "SECURE",
    "listener.security.protocol.map": "SECURE:SASL_SSL,CONTROLLER:SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
    "log.dirs": "/data",
}
PLAIN_MODULE = jaas("plain.PlainLoginModule", username="node", password="p1", user_node="p1")
SCRAM_MODULE = jaas("scram.ScramLoginModule", username="controller", password="p2")
SETTINGS = {
    "listener.name.secure.plain.sasl.jaas.config": PLAIN_MODULE,
    "listener.name.controller.scram-sha-512.sasl.jaas.config": SCRAM_MODULE,
}


def config(**changes: str) -> BrokerConfig:
    return BrokerConfig.parse(NODE | SETTINGS | {name.replace("_", "."): value for name, value in changes.items()})


def securities(parsed: BrokerConfig) -> list[NodeSecurity | None]:
    troubles = Troubles(lambda: 0.0)
    return [make(lambda: parsed, Random(1), troubles) for make in (broker_security, controller_security)]


def test_brokers_and_controllers_are_reached_with_their_own_protocol_and_credentials() -> None:
    parsed = config()
    to_brokers, to_controllers = securities(parsed)
    assert to_brokers is not None and to_brokers.has_tls
    assert to_controllers is not None and not to_controllers.has_tls
    assert to_controllers.context() is None
    assert to_controllers.authentication("localhost") is not None
    ours = credentials_of(parsed, "SECURE", "PLAIN")
    assert (ours.username, ours.password) == ("node", "p1")
    theirs = credentials_of(parsed, "CONTROLLER", "SCRAM-SHA-512")
    assert (theirs.username, theirs.password) == ("controller", "p2")


def test_listeners_in_the_open_need_nothing() -> None:
    parsed = config(listener_security_protocol_map="SECURE:PLAINTEXT,CONTROLLER:PLAINTEXT")
    assert securities(parsed) == [None, None]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sasl.mechanism.inter.broker.protocol": "CRAM"}, "sasl.mechanism.inter.broker.protocol is CRAM"),
        ({"listener.name.secure.plain.sasl.jaas.config": ""}, "plain.sasl.jaas.config is not set"),
        ({"listener.name.secure.plain.sasl.jaas.config": SCRAM_MODULE}, "names ScramLoginModule"),
        (
            {"listener.name.secure.plain.sasl.jaas.config": jaas("plain.PlainLoginModule", user_a="very-secret")},
            "has no username and password",
        ),
        ({"listener.name.secure.plain.sasl.jaas.config": "very-secret"}, "cannot be read"),
    ],
)
def test_credentials_that_are_missing_are_named_and_nothing_secret_is(changes: dict[str, str], reason: str) -> None:
    parsed = BrokerConfig.parse(NODE | SETTINGS | changes)
    with pytest.raises(ConfigError) as failed:
        credentials_of(parsed, "SECURE", parsed.sasl_mechanism_inter_broker_protocol)
    assert reason in str(failed.value)
    assert "very-secret" not in str(failed.value) and "p2" not in str(failed.value)


def test_trouble_is_logged_once_for_an_address_and_again_later(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.peers")
    now = [0.0]
    troubles = Troubles(lambda: now[0])
    for at in (0.0, 1.0, LOG_EVERY_S - 1):
        now[0] = at
        troubles.add("a:1", "no trust")
    assert len(caplog.records) == 1
    troubles.add("b:1", "no trust")
    assert len(caplog.records) == 2
    now[0] = LOG_EVERY_S + 1
    troubles.add("a:1", "no trust")
    assert len(caplog.records) == 3
    assert troubles.at("a:1") == "no trust"
    troubles.remove("a:1")
    troubles.remove("a:1")
    assert troubles.at("a:1") == "" and len(caplog.records) == 4


def test_errors_say_what_to_do() -> None:
    refused: Any = ssl.SSLError(1, "x")
    refused.reason = "TLSV1_ALERT_UNKNOWN_CA"
    assert "it refuses this node's certificate" in explain(refused, "SECURE", "SSL")
    refused.reason = "WRONG_VERSION_NUMBER"
    assert "Does it speak TLS?" in explain(refused, "SECURE", "SSL")


def bearer(options: dict[str, str] = {}, **more: str) -> BrokerConfig:  # noqa: B006
    return BrokerConfig.parse(
        NODE
        | SETTINGS
        | {
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "https://login.test/token",
            "listener.name.secure.oauthbearer.sasl.jaas.config": jaas(
                "oauthbearer.OAuthBearerLoginModule",
                **{"clientId": "nodes", "clientSecret": "very-secret", "extension_logicalCluster": "a"} | options,
            ),
        }
        | {name.replace("_", "."): value for name, value in more.items()}
    )


def test_a_node_logs_in_with_a_token_that_all_its_connections_share() -> None:
    parsed = bearer()
    credentials = credentials_of(parsed, "SECURE", "OAUTHBEARER")
    assert credentials.token is credentials_of(parsed, "SECURE", "OAUTHBEARER").token
    assert credentials.extensions == {"logicalCluster": "a"}
    assert "very-secret" not in repr(credentials)


def test_a_token_comes_from_a_file_anew_for_each_login(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    parsed = bearer(sasl_oauthbearer_token_endpoint_url=f"file://{quote(str(file))}")
    to_brokers, _ = securities(parsed)
    assert to_brokers is not None
    for token in ("one", "two"):
        file.write_text(token)
        login = to_brokers.authentication("localhost")
        assert login is not None
        login.begin()
        request = login.handle(SaslHandshakeResponse(mechanisms=["OAUTHBEARER"]))
        assert isinstance(request, SaslAuthenticateRequest)
        assert f"auth=Bearer {token}\x01".encode() in request.auth_bytes


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sasl_oauthbearer_token_endpoint_url": ""}, "token.endpoint.url is not set"),
        ({"sasl_oauthbearer_token_endpoint_url": "http://login.test/token"}, "it has to be https"),
        ({"org_apache_kafka_sasl_oauthbearer_allowed_urls": "https://other.test"}, "is none of org.apache.kafka"),
        ({"options": {"clientId": ""}}, "client.credentials.client.id"),
        ({"options": {"ssl.truststore.location": "/nowhere.pem"}}, "/nowhere.pem cannot be read"),
        ({"options": {"ssl.engine.factory.class": "evil"}}, "ssl.engine.factory.class of the login module"),
    ],
)
def test_a_token_that_a_node_cannot_have_stops_the_start(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as failed:
        credentials_of(bearer(**changes), "SECURE", "OAUTHBEARER")
    assert "very-secret" not in str(failed.value)
