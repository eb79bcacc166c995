"""The TLS contexts of each listener, from a node's settings: for incoming and for outgoing connections.

A setting with the prefix `listener.name.<listener>.` wins over the one without. For outgoing connections a node uses
the settings of the listener that it connects to.
"""

from __future__ import annotations

import ssl

from ottla.config import BrokerConfig, ConfigError, Listener
from ottla.config.synonyms import without_listener_prefix
from ottla.net.tls_contexts import (
    TLS_VERSIONS,
    TlsSettings,
    TlsSettingsError,
    client_context,
    own_certificates,
    server_context,
    shaken_context,
    stamp,
)
from ottla.security.certificates import from_pem, subject_alternative_names, subject_name
from ottla.security.principal_mapping import PrincipalMapping, parse_principal_mapping

TLS_PROTOCOLS = ("SSL", "SASL_SSL")
_CONTEXT_PROTOCOLS = ("TLS", *TLS_VERSIONS)


def has_tls(security_protocol: str) -> bool:
    return security_protocol in TLS_PROTOCOLS


def is_tls_setting(name: str) -> bool:
    """Whether a setting is one of TLS, with the prefix of a listener."""
    base = without_listener_prefix(name)
    return base is not None and base.startswith("ssl.")


class ListenerTls:
    """The contexts of this node's listeners, and the certificates that they show."""

    def __init__(self) -> None:
        self._certificates: dict[str, bytes] = {}
        """Listener -> the certificate in use, in DER: the file may hold a newer one."""

    def context(self, config: BrokerConfig, listener: Listener) -> ssl.SSLContext:
        """The context for new connections to a listener; ConfigError names the setting that it lacks."""
        context, certificate = _load(config, listener)
        self._certificates[listener.name] = certificate
        return context

    def check(self, after: BrokerConfig) -> None:
        """Refuse a changed key store that clients or other nodes would not accept, by Kafka's rules: the owner's name
        must stay, alternative names may only be added, and a handshake of the store with itself must succeed.
        ConfigError says which rule is broken.
        """
        for listener in after.listeners:
            if has_tls(listener.security_protocol):
                _, certificate = _load(after, listener)
                before = self._certificates.get(listener.name)
                if before is not None:
                    _check_names(after, listener.name, before, certificate)


def named_context(config: BrokerConfig, name: str, *, needs_certificate: bool) -> ssl.SSLContext:
    """The context of a port that is no listener of Kafka's protocol, by the settings of that name's prefix."""
    try:
        settings = _settings(config, name, "SSL")
        return server_context(settings._replace(client_auth="required" if needs_certificate else "none"))
    except TlsSettingsError as error:
        raise ConfigError(str(error)) from None


def _load(config: BrokerConfig, listener: Listener) -> tuple[ssl.SSLContext, bytes]:
    try:
        settings = _settings(config, listener.name, listener.security_protocol)
        # Other nodes connect with the same settings: a handshake shows now whether they can.
        make = shaken_context if is_of_nodes(config, listener.name) else server_context
        return make(settings), from_pem(own_certificates(settings)[0])
    except TlsSettingsError as error:
        raise ConfigError(f"listener {listener.name} ({listener.security_protocol}): {error}") from None


def _check_names(config: BrokerConfig, listener: str, before: bytes, after: bytes) -> None:
    old, new = subject_name(before), subject_name(after)
    if old.lower() != new.lower() and not config.of_listener(listener, "ssl.allow.dn.changes"):
        raise ConfigError(
            f"listener {listener}: the certificate in force is that of {old}, the new one that of {new}; "
            "ssl.allow.dn.changes=true allows it"
        )
    if not subject_alternative_names(before) <= subject_alternative_names(after) and not config.of_listener(
        listener, "ssl.allow.san.changes"
    ):
        raise ConfigError(
            f"listener {listener}: the new certificate lacks subject alternative names of the one in force; "
            "ssl.allow.san.changes=true allows it"
        )


def peer_context(config: BrokerConfig, listener: str, security_protocol: str) -> ssl.SSLContext:
    """The context for connections of this node to a listener of other nodes."""
    try:
        return client_context(_settings(config, listener, security_protocol)._replace(client_auth="none"))
    except TlsSettingsError as error:
        raise ConfigError(f"connections to listener {listener} ({security_protocol}): {error}") from None


def principal_mapping(config: BrokerConfig, listener: str) -> PrincipalMapping:
    try:
        return parse_principal_mapping(str(config.of_listener(listener, "ssl.principal.mapping.rules")))
    except ValueError as error:
        raise ConfigError(f"listener {listener}: {error}") from None


def is_of_nodes(config: BrokerConfig, listener: str) -> bool:
    """Whether nodes of the cluster connect to a listener."""
    return listener in (config.inter_broker_listener, *(name.upper() for name in config.controller_listener_names))


def _settings(config: BrokerConfig, listener: str, security_protocol: str) -> TlsSettings:
    def text(name: str) -> str | None:
        value = config.of_listener(listener, name)
        return None if value is None or value == "" else str(value)

    def words(name: str) -> tuple[str, ...]:
        value = config.of_listener(listener, name)
        assert isinstance(value, tuple)
        return tuple(str(one) for one in value)

    protocols = words("ssl.enabled.protocols")
    for name in protocols:
        if name not in TLS_VERSIONS:
            raise TlsSettingsError(f"ssl.enabled.protocols has {name}; served are {', '.join(TLS_VERSIONS)}")
    if not protocols:
        raise TlsSettingsError("ssl.enabled.protocols names no version of TLS")
    if text("ssl.protocol") not in _CONTEXT_PROTOCOLS:
        raise TlsSettingsError(f"ssl.protocol is {text('ssl.protocol')}; it is one of {', '.join(_CONTEXT_PROTOCOLS)}")
    # As in Kafka: a listener with SASL asks for certificates only if its own prefix says so.
    client_auth = str(config.of_listener(listener, "ssl.client.auth"))
    if security_protocol == "SASL_SSL" and not config.has_of_listener(listener, "ssl.client.auth"):
        client_auth = "none"
    return TlsSettings(
        truststore=stamp("ssl.truststore.location", text("ssl.truststore.location")),
        truststore_password=text("ssl.truststore.password"),
        truststore_certificates=text("ssl.truststore.certificates"),
        keystore=stamp("ssl.keystore.location", text("ssl.keystore.location")),
        keystore_password=text("ssl.keystore.password"),
        keystore_key=text("ssl.keystore.key"),
        keystore_certificate_chain=text("ssl.keystore.certificate.chain"),
        key_password=text("ssl.key.password"),
        checks_name=(text("ssl.endpoint.identification.algorithm") or "").lower() == "https",
        protocols=protocols,
        cipher_suites=words("ssl.cipher.suites"),
        client_auth=client_auth.lower(),
    )
