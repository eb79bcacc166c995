"""TLS for a client: the context that its settings ask for."""

from __future__ import annotations

import ssl

from ottla.client.errors import ConfigError
from ottla.client.security_config import SecurityConfig
from ottla.net.tls_contexts import (
    CLIENT_AUTH,
    TlsSettings,
    TlsSettingsError,
    client_context,
    server_context,
    stamp,
    trusted_certificates,
)


def tls_context(config: SecurityConfig) -> ssl.SSLContext:
    """The context for connections to brokers; ConfigError names a setting that it cannot be made of."""
    try:
        return client_context(_tls_settings(config))
    except TlsSettingsError as error:
        raise ConfigError(str(error)) from None


def listener_context(config: SecurityConfig, client_auth: str = "none") -> ssl.SSLContext:
    """The context of a server that has these settings' key; `client_auth`: none, requested or required."""
    if client_auth not in CLIENT_AUTH:
        raise ConfigError(f"Invalid value {client_auth!r} for ssl.client.auth: it is one of {', '.join(CLIENT_AUTH)}")
    try:
        return server_context(_tls_settings(config)._replace(client_auth=client_auth))
    except TlsSettingsError as error:
        raise ConfigError(str(error)) from None


def token_context(config: SecurityConfig) -> ssl.SSLContext:
    """The context for the server that gives out tokens: the system's CAs and those of the brokers."""
    context = ssl.create_default_context()
    try:
        trusted = trusted_certificates(_tls_settings(config))
    except TlsSettingsError as error:
        raise ConfigError(str(error)) from None
    if trusted:
        context.load_verify_locations(cadata=trusted)
    return context


def _tls_settings(config: SecurityConfig) -> TlsSettings:
    return TlsSettings(
        truststore=stamp("ssl.truststore.location", config.ssl_truststore_location),
        truststore_password=config.ssl_truststore_password,
        truststore_certificates=config.ssl_truststore_certificates,
        ca=stamp("ssl.ca.location", config.ssl_ca_location),
        keystore=stamp("ssl.keystore.location", config.ssl_keystore_location),
        keystore_password=config.ssl_keystore_password,
        keystore_key=config.ssl_keystore_key,
        keystore_certificate_chain=config.ssl_keystore_certificate_chain,
        certificate=stamp("ssl.certificate.location", config.ssl_certificate_location),
        key=stamp("ssl.key.location", config.ssl_key_location),
        key_password=config.ssl_key_password,
        checks_name=config.ssl_endpoint_identification_algorithm == "https",
        protocols=config.ssl_enabled_protocols,
    )
