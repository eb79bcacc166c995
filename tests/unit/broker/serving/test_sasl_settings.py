"""What the settings of a SASL listener mean, and what a node says that cannot start with them."""

from __future__ import annotations

import sys

import pytest

from ottla.broker.serving.sasl_settings import check_sasl, read_sasl_settings
from ottla.config import BrokerConfig, ConfigError
from ottla.security.jwt import TokenRules

LISTENER = "listener.name.secure."
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f'{PLAIN_MODULE} required username="b" password="s3cret" user_alice="s3cret";'


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig.parse(
        {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            **settings,
        }
    )


def test_settings_of_the_mechanism_win_over_those_of_the_listener_and_of_the_node() -> None:
    found = read_sasl_settings(
        config(
            **{
                "sasl.enabled.mechanisms": "GSSAPI",
                LISTENER + "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
                LISTENER + "plain.sasl.jaas.config": JAAS,
                LISTENER + "sasl.server.max.receive.size": "1000",
                "connections.max.reauth.ms": "1",
                LISTENER + "connections.max.reauth.ms": "2",
                LISTENER + "scram-sha-512.connections.max.reauth.ms": "3",
            }
        ),
        "SECURE",
    )
    assert sorted(found.mechanisms) == ["PLAIN", "SCRAM-SHA-512"]
    assert found.plain_users == {"alice": "s3cret"}
    assert found.max_reauth_ms == {"PLAIN": 2, "SCRAM-SHA-512": 3}
    assert found.max_receive_bytes == 1000
    assert "s3cret" not in repr(found)


def test_settings_of_a_listener_that_have_an_effect_cause_no_warning() -> None:
    made = config(**{LISTENER + "sasl.enabled.mechanisms": "PLAIN", LISTENER + "plain.sasl.jaas.config": JAAS})
    assert made.warnings == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "offers GSSAPI, which is Kafka's default .* set listener.name.secure.sasl.enabled.mechanisms"),
        ({"sasl.enabled.mechanisms": "SCRAM-SHA-1"}, "names SCRAM-SHA-1, which is not served; served are PLAIN"),
        ({"sasl.enabled.mechanisms": ""}, "listener SECURE has no SASL mechanism"),
        (
            {"sasl.enabled.mechanisms": "PLAIN"},
            "has no users for it: write listener.name.secure.plain.sasl.jaas.config=",
        ),
        (
            {"sasl.enabled.mechanisms": "PLAIN", LISTENER + "plain.sasl.jaas.config": "x.ScramLoginModule required;"},
            "names the login module ScramLoginModule, expected PlainLoginModule",
        ),
        (
            {"sasl.enabled.mechanisms": "PLAIN", LISTENER + "plain.sasl.jaas.config": f"{PLAIN_MODULE} required;"},
            'has no user: add user_NAME="PASSWORD"',
        ),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                LISTENER + "plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="";',
            },
            "a user with an empty password",
        ),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                LISTENER + "plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="s3cret"',
            },
            "cannot be read: .*semicolon",
        ),
    ],
)
def test_a_listener_that_could_let_in_no_client_refuses_to_start(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        check_sasl(config(**settings))
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
@pytest.mark.parametrize("module", ["JndiLoginModule", "LdapLoginModule"])
def test_cve_2025_27818_a_login_module_that_asks_another_server_is_refused(mechanism: str, module: str) -> None:
    setting = f"{LISTENER}{mechanism.lower()}.sasl.jaas.config"
    text = f'com.sun.security.auth.module.{module} required user.provider.url="ldap://attacker";'
    with pytest.raises(ConfigError, match=f"{setting} names the login module {module}, expected "):
        check_sasl(config(**{"sasl.enabled.mechanisms": mechanism, setting: text}))


JWKS = LISTENER + "oauthbearer.sasl.oauthbearer.jwks.endpoint.url"
OAUTH = {"sasl.enabled.mechanisms": "OAUTHBEARER"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "has no keys to verify tokens with: set " + JWKS),
        ({JWKS: " "}, "has no keys to verify tokens with"),
        ({JWKS: "http://issuer/keys"}, "expected https://HOST/PATH or file:///PATH"),
        ({JWKS: "ldap://issuer/keys"}, "expected https://HOST/PATH or file:///PATH"),
        (
            {JWKS: "https://issuer/keys", "org.apache.kafka.sasl.oauthbearer.allowed.urls": "https://other/keys"},
            "which is none of org.apache.kafka.sasl.oauthbearer.allowed.urls",
        ),
    ],
)
def test_cve_2026_110985_and_33557_oauthbearer_without_keys_refuses_to_start(
    settings: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_sasl(config(**OAUTH, **settings))


def test_what_is_expected_of_tokens_comes_from_settings_of_the_mechanism_the_listener_or_the_node() -> None:
    found = read_sasl_settings(
        config(
            **OAUTH,
            **{
                JWKS: "https://issuer/keys",
                "org.apache.kafka.sasl.oauthbearer.allowed.urls": "https://issuer/token, https://issuer/keys",
                LISTENER + "sasl.oauthbearer.expected.issuer": "https://issuer",
                "sasl.oauthbearer.expected.audience": "kafka,other",
                LISTENER + "oauthbearer.sasl.oauthbearer.sub.claim.name": "user",
                "sasl.oauthbearer.clock.skew.seconds": "5",
            },
        ),
        "SECURE",
    ).bearer
    assert found is not None
    assert found.jwks_url == "https://issuer/keys"
    assert (found.refresh_ms, found.retry_backoff_ms, found.retry_backoff_max_ms) == (3_600_000, 100, 10_000)
    assert found.rules == TokenRules("https://issuer", ("kafka", "other"), "user", "scope", 5)


HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


@pytest.mark.parametrize(
    "name",
    [
        "principal.builder.class",
        "sasl.server.callback.handler.class",
        LISTENER + "plain.sasl.server.callback.handler.class",
        LISTENER + "sasl.login.class",
        "sasl.login.callback.handler.class",
        "sasl.client.callback.handler.class",
        "sasl.oauthbearer.jwt.validator.class",
    ],
)
def test_a_java_class_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} cannot be com.example.Own: Ottla does not run Java classes"):
        config(**{name: "com.example.Own"})


def test_a_class_of_kafkas_whose_work_ottla_does_itself_is_accepted() -> None:
    config(
        **{
            "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
            LISTENER + "oauthbearer.sasl.server.callback.handler.class": HANDLER,
        }
    )


def test_kafkas_validator_of_unsigned_tokens_is_refused() -> None:
    unsecured = (
        "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    )
    with pytest.raises(ConfigError, match="accepts tokens that no one signed"):
        config(**{LISTENER + "oauthbearer.sasl.server.callback.handler.class": unsecured})


def test_kerberos_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ottla.net.kerberos", None)
    module = 'com.sun.security.auth.module.Krb5LoginModule required keyTab="/k" principal="kafka/h@R";'
    settings = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.secure.gssapi.sasl.jaas.config": module,
    }
    with pytest.raises(ConfigError, match=r"needs the package gssapi .*pip install 'ottla\[gssapi\]'"):
        read_sasl_settings(config(**settings), "SECURE")
