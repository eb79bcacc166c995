"""The settings of secured connections: names, defaults, contradictions, and secrets that stay secret."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from ottla.client.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from ottla.client.errors import ConfigError
from ottla.client.settings import describe
from ottla.security.authentication import Credentials

SERVERS = {"bootstrap.servers": "a:9092"}
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
BEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
ENDPOINT = {"sasl.oauthbearer.token.endpoint.url": "https://login.test/token"}


def sasl(mechanism: str, **more: Any) -> dict[str, Any]:
    settings = {name.replace("_", "."): value for name, value in more.items()}
    return {**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, **settings}


def test_defaults_are_those_of_kafkas_clients() -> None:
    defaults = {name: default for name, default, _ in describe(ClientConfig)}
    assert defaults["security.protocol"] == "PLAINTEXT"
    assert defaults["sasl.mechanism"] == "GSSAPI"
    assert defaults["ssl.endpoint.identification.algorithm"] == "https"
    assert defaults["ssl.enabled.protocols"] == ("TLSv1.2", "TLSv1.3")
    assert defaults["ssl.truststore.type"] == defaults["ssl.keystore.type"] == "JKS"
    for name in ("sasl.jaas.config", "ssl.truststore.location", "ssl.keystore.location", "ssl.key.password"):
        assert defaults[name] is None


@pytest.mark.parametrize("name", ["sasl.login.connect.timeout.ms", "sasl.oauthbearer.sub.claim.name", "ssl.protocol"])
def test_what_only_java_needs_is_passed_over(name: str, caplog: pytest.LogCaptureFixture) -> None:
    ClientConfig.parse({**SERVERS, name: "1"})
    assert f"{name} has no effect" in caplog.text


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ssl.cipher.suites", "the ciphers are those that OpenSSL"),
        ("ssl_engine_factory_class", "a class of Java's"),
    ],
)
def test_what_would_be_missed_is_refused_with_what_there_is(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"does not have the setting {name}: .*{reason}"):
        ClientConfig.parse({**SERVERS, name: "1"})


@pytest.mark.parametrize("kind", [AdminConfig, ConsumerConfig, ProducerConfig])
def test_every_client_has_them(kind: type[ClientConfig]) -> None:
    config = kind.parse(sasl("scram-sha-256", sasl_username="u", sasl_password="p"))
    assert config.credentials() == Credentials("SCRAM-SHA-256", "u", "p")
    assert (config.has_tls, config.has_sasl) == (True, True)


@pytest.mark.parametrize(
    ("mechanism", "jaas", "expected"),
    [
        ("PLAIN", f'{PLAIN_MODULE} required username="u" password="p";', Credentials("PLAIN", "u", "p")),
        (
            "SCRAM-SHA-512",
            f'{SCRAM_MODULE} required username="u" password="p" tokenauth="true";',
            Credentials("SCRAM-SHA-512", "u", "p", is_delegation_token=True),
        ),
    ],
)
def test_credentials_in_java_form(mechanism: str, jaas: str, expected: Credentials) -> None:
    assert ClientConfig.parse(sasl(mechanism, sasl_jaas_config=jaas)).credentials() == expected


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({**SERVERS, "security.protocol": "TLS"}, "one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({**SERVERS, "security.protocol": "SASL_SSL"}, "GSSAPI, which is Kafka's default: set sasl.mechanism .*PLAIN"),
        (sasl("AWS_MSK_IAM"), "sasl.mechanism is AWS_MSK_IAM: this client has"),
        (sasl("PLAIN"), "PLAIN needs sasl.username and sasl.password, or sasl.jaas.config=.*PlainLoginModule"),
        (sasl("PLAIN", sasl_username="u"), "PLAIN needs"),
        (sasl("PLAIN", sasl_jaas_config=f'{PLAIN_MODULE} required username="u";'), "password in sasl.jaas.config"),
        (sasl("PLAIN", sasl_jaas_config=f'{SCRAM_MODULE} required password="hush";'), "goes with PlainLoginModule"),
        (sasl("PLAIN", sasl_jaas_config=f'{PLAIN_MODULE} required password="hush"'), "end with a semicolon"),
        (sasl("OAUTHBEARER"), "OAUTHBEARER needs a token"),
        (sasl("OAUTHBEARER", sasl_oauthbearer_token_provider="hush"), "a function without arguments"),
        ({**sasl("OAUTHBEARER"), **ENDPOINT}, "client.credentials.client.id"),
        ({**SERVERS, "ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "one or both of TLSv1.2, TLSv1.3"),
        ({**SERVERS, "ssl.enabled.protocols": ""}, "names no version"),
        ({**SERVERS, "ssl.truststore.type": "BKS"}, "one of JKS, PKCS12, PEM"),
        ({**SERVERS, "ssl.endpoint.identification.algorithm": "ldaps"}, "one of https, "),
        ({**SERVERS, "sasl.password": 5}, r"Invalid value \[hidden\] for sasl.password"),
        ({**SERVERS, "sasl.mechanisms": "PLAIN"}, "did you mean sasl.mechanism"),
    ],
)
def test_what_contradicts_itself_is_refused_when_it_is_read(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as failed:
        ClientConfig.parse(settings)
    assert "hush" not in str(failed.value).replace("Invalid value 'hush' for sasl.oauthbearer.token.provider", "")


def test_http_is_no_way_for_a_secret() -> None:
    settings = sasl("OAUTHBEARER", sasl_jaas_config=f'{BEARER_MODULE} required clientId="c" clientSecret="hush";')
    ClientConfig.parse({**settings, **ENDPOINT})
    with pytest.raises(ConfigError, match="it has to be https") as failed:
        ClientConfig.parse({**settings, "sasl.oauthbearer.token.endpoint.url": "http://login.test/token"})
    assert "hush" not in str(failed.value)


def test_the_endpoint_keeps_one_token_for_all_connections() -> None:
    settings = sasl("OAUTHBEARER", sasl_jaas_config=f'{BEARER_MODULE} required clientId="c" clientSecret="s";')
    config = ClientConfig.parse({**settings, **ENDPOINT})
    assert config.credentials().token is config.credentials().token


@pytest.mark.parametrize("off", ["", "none", "NONE"])
def test_the_check_of_names_can_be_turned_off_as_in_java_and_in_librdkafka(off: str) -> None:
    config = ClientConfig.parse({**SERVERS, "ssl.endpoint.identification.algorithm": off})
    assert config.ssl_endpoint_identification_algorithm == ""


def test_no_secret_is_in_what_is_shown() -> None:
    secrets = ("ssl.truststore.password", "ssl.keystore.password", "ssl.keystore.key", "ssl.key.password")
    settings = dict.fromkeys(secrets, "hush") | {
        "sasl.password": "hush",
        "sasl.jaas.config": f'{PLAIN_MODULE} required username="u" password="hush";',
        "sasl.oauthbearer.client.credentials.client.secret": "hush",
    }
    for kind in (AdminConfig, ConsumerConfig, ProducerConfig):
        shown = repr(kind.parse({**sasl("PLAIN"), **settings}))
        assert "hush" not in shown
        assert "security_protocol='SASL_SSL'" in shown


def test_kerberos_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ottla.net.kerberos", None)
    with pytest.raises(ConfigError, match=r"needs the package gssapi .*pip install 'ottla\[gssapi\]'"):
        ClientConfig.parse({**sasl("GSSAPI"), "sasl.kerberos.service.name": "kafka"})
