"""A listener's Kerberos (GSSAPI) settings: the keytab of this node, for clients and for its own logins.

    listener.name.<listener>.gssapi.sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required \\
        useKeyTab=true storeKey=true keyTab="/etc/kafka/kafka.keytab" principal="kafka/broker.example.org@EXAMPLE.ORG";
    sasl.kerberos.service.name=kafka
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.config import BrokerConfig, ConfigError
from ottla.security.authentication import GSSAPI, Credentials, Mechanism
from ottla.security.jaas import parse_jaas
from ottla.security.kerberos_names import LocalNames

LOGIN_MODULE = "Krb5LoginModule"


@dataclass(frozen=True, slots=True)
class KerberosSettings:
    principal: str
    keytab: str
    service: str
    names: LocalNames


def read_kerberos_settings(config: BrokerConfig, listener: str, *, needs_key: bool = True) -> KerberosSettings:
    """Reads the settings. ConfigError names what is missing: the keytab, the package, the name of the service; if
    `needs_key` the key.
    """
    setting = f"listener.name.{listener.lower()}.gssapi.sasl.jaas.config"
    example = (
        f"com.sun.security.auth.module.{LOGIN_MODULE} required useKeyTab=true storeKey=true "
        'keyTab="/etc/kafka/kafka.keytab" principal="kafka/HOST@REALM";'
    )
    otherwise = (
        f"Without Kerberos set listener.name.{listener.lower()}.sasl.enabled.mechanisms (or sasl.enabled.mechanisms), "
        "for example to SCRAM-SHA-512"
    )
    text = config.of_listener(listener, "sasl.jaas.config", GSSAPI)
    if not isinstance(text, str) or not text:
        raise ConfigError(
            f"listener {listener} offers GSSAPI, which is Kafka's default for sasl.enabled.mechanisms, and {setting} "
            f"is not set: write {example} {otherwise}"
        )
    try:
        from ottla.net.kerberos import KerberosError, acceptor
    except ImportError as error:
        raise ConfigError(
            f"listener {listener} offers GSSAPI, which needs the package gssapi ({error}): apt-get install libkrb5-dev "
            f"gcc, then pip install 'ottla[gssapi]'. {otherwise}"
        ) from None
    try:
        module = parse_jaas(text)
    except ValueError as error:
        raise ConfigError(f"{setting} cannot be read: {error}") from None
    if module.name != LOGIN_MODULE:
        raise ConfigError(f"{setting} names the login module {module.name}, expected {LOGIN_MODULE}: write {example}")
    principal, keytab = module.options.get("principal", ""), module.options.get("keyTab", "").removeprefix("file:")
    if not principal or not keytab:
        raise ConfigError(f"{setting} has no keyTab and principal: write {example}")
    service = config.of_listener(listener, "sasl.kerberos.service.name", GSSAPI) or module.options.get("serviceName")
    if not service:
        raise ConfigError(
            f"sasl.kerberos.service.name is not set, and GSSAPI on listener {listener} needs it: it is kafka if the "
            "principals of the nodes are kafka/HOST@REALM"
        )
    rules = config.of_listener(listener, "sasl.kerberos.principal.to.local.rules", GSSAPI)
    assert isinstance(rules, tuple)
    try:
        names = LocalNames([str(rule) for rule in rules])
        if needs_key:
            acceptor(principal, keytab)
    except ValueError as error:
        raise ConfigError(f"sasl.kerberos.principal.to.local.rules: {error}") from None
    except KerberosError as error:
        raise ConfigError(f"{setting}: the key of {principal} cannot be read from {keytab}: {error}") from None
    return KerberosSettings(principal, keytab, str(service), names)


def kerberos_credentials(config: BrokerConfig, listener: str) -> Credentials:
    """The credentials of this node for a listener of other nodes."""
    settings = read_kerberos_settings(config, listener, needs_key=False)  # a disk is not for the loop

    def mechanism_at(host: str) -> Mechanism:
        from ottla.net.kerberos import GssapiClient

        return GssapiClient(settings.service, host, settings.principal, settings.keytab, None)

    return Credentials(GSSAPI, settings.principal, mechanism_at=mechanism_at)
