"""TLS for a client: the context that its settings ask for.

Contexts are kept and shared by all connections with the same settings and files. A file that changes (a renewed
certificate) makes a new one, so a client that runs for months goes on with it at its next connection.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

from ottla.client.errors import ConfigError
from ottla.client.security_config import SecurityConfig
from ottla.security.stores import MAX_STORE_BYTES, Store, StoreError, read_pem, read_store

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class _Stamp(NamedTuple):
    """A file, and whether it is still the same."""

    path: str
    changed_at_ns: int
    size: int


def tls_context(config: SecurityConfig) -> ssl.SSLContext:
    """The context for connections to brokers; ConfigError names a setting that it cannot be made of."""
    return _context(_tls_settings(config))


def token_context(config: SecurityConfig) -> ssl.SSLContext:
    """The context for the server that gives out tokens: the system's CAs and those of the brokers."""
    context = ssl.create_default_context()
    settings = _tls_settings(config)
    if trusted := _trusted(settings):
        context.load_verify_locations(cadata=trusted)
    return context


class _TlsSettings(NamedTuple):
    """All that a context is made of."""

    truststore: _Stamp | None
    truststore_password: str | None
    truststore_certificates: str | None
    ca: _Stamp | None
    keystore: _Stamp | None
    keystore_password: str | None
    keystore_key: str | None
    keystore_certificate_chain: str | None
    certificate: _Stamp | None
    key: _Stamp | None
    key_password: str | None
    checks_name: bool
    protocols: tuple[str, ...]

    def __repr__(self) -> str:
        return "_TlsSettings(...)"  # passwords and a key are in it


def _tls_settings(config: SecurityConfig) -> _TlsSettings:
    return _TlsSettings(
        _stamp("ssl.truststore.location", config.ssl_truststore_location),
        config.ssl_truststore_password,
        config.ssl_truststore_certificates,
        _stamp("ssl.ca.location", config.ssl_ca_location),
        _stamp("ssl.keystore.location", config.ssl_keystore_location),
        config.ssl_keystore_password,
        config.ssl_keystore_key,
        config.ssl_keystore_certificate_chain,
        _stamp("ssl.certificate.location", config.ssl_certificate_location),
        _stamp("ssl.key.location", config.ssl_key_location),
        config.ssl_key_password,
        config.ssl_endpoint_identification_algorithm == "https",
        config.ssl_enabled_protocols,
    )


def _stamp(name: str, path: str | None) -> _Stamp | None:
    if not path:
        return None
    try:
        found = os.stat(path)
    except OSError as error:
        raise ConfigError(f"{name} {path} cannot be read: {error.strerror}") from None
    if found.st_size > MAX_STORE_BYTES:
        raise ConfigError(f"{name} {path} has {found.st_size} bytes: that is no store of certificates")
    return _Stamp(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=32)
def _context(settings: _TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = sorted(_VERSIONS[name] for name in settings.protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.check_hostname = settings.checks_name
    # As in Java: whatever stands in a trust store is trusted, also if it is not the root of a chain.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    trusted = _trusted(settings)
    if trusted is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cadata=trusted)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"the trust store holds what is no certificate: {error}") from None
    _identify(context, settings)
    return context


# What is trusted


def _trusted(settings: _TlsSettings) -> str | None:
    """The certificates of the CAs, as PEM; None: those of the system."""
    given = [
        name
        for name, value in (
            ("ssl.truststore.certificates", settings.truststore_certificates),
            ("ssl.truststore.location", settings.truststore),
            ("ssl.ca.location", settings.ca),
        )
        if value is not None
    ]
    if not given:
        return None
    name = _single(given)
    if settings.truststore_certificates is not None:
        store = _from_text(name, settings.truststore_certificates)
    else:
        stamp = settings.truststore or settings.ca
        assert stamp is not None
        store = _from_file(name, stamp, settings.truststore_password, None, wants_key=False)
    if not store.certificates:
        raise ConfigError(f"{name} holds no certificate of a CA")
    return "".join(store.certificates)


# Who this client is


def _identify(context: ssl.SSLContext, settings: _TlsSettings) -> None:
    """Give the context the client's certificate, if the settings have one."""
    pair = ("ssl.keystore.key and ssl.keystore.certificate.chain", "ssl.certificate.location and ssl.key.location")
    given = [
        name
        for name, values in (
            ("ssl.keystore.location", (settings.keystore,)),
            (pair[0], (settings.keystore_key, settings.keystore_certificate_chain)),
            (pair[1], (settings.certificate, settings.key)),
        )
        if any(value is not None for value in values)
    ]
    if not given:
        return
    name = _single(given)
    if settings.keystore is not None:
        store = _from_file(name, settings.keystore, settings.keystore_password, settings.key_password, wants_key=True)
    else:
        certificates, key = Store(), Store()
        if name == pair[0]:
            certificates = _from_text(name, settings.keystore_certificate_chain or "")
            key = _from_text(name, settings.keystore_key or "")
        else:
            if settings.certificate is not None:
                certificates = _from_file(name, settings.certificate, None, None, wants_key=True)
            key = certificates
            if settings.key is not None:
                key = _from_file(name, settings.key, None, None, wants_key=True)
        store = Store(certificates.certificates, key.key, key.key_is_encrypted)
    if store.key is None or not store.certificates:
        missing = "private key" if store.key is None else "certificate"
        raise ConfigError(f"{name}: there is no {missing} of this client in it; both it and its other half are needed")
    if store.key_is_encrypted and settings.key_password is None:
        raise ConfigError(f"{name}: the private key is encrypted; ssl.key.password has to be set")
    password = (settings.key_password or "").encode()
    try:
        with _as_file(store.key + "".join(store.certificates)) as path:
            # Given always: without one OpenSSL would ask on the terminal.
            context.load_cert_chain(path, password=lambda: password)
    except (ssl.SSLError, ValueError) as error:
        if store.key_is_encrypted:
            raise ConfigError(f"{name}: the private key cannot be read; is ssl.key.password right?") from None
        reason = getattr(error, "reason", None) or error
        raise ConfigError(f"{name}: private key and certificate cannot be used together: {reason}") from None


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """A key under a name, which is all that OpenSSL takes: in memory where the system can, never on a disk for long."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("ottla")
        try:
            with open(descriptor, "w", closefd=False) as file:
                file.write(text)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile("w") as named:
            named.write(text)
            named.flush()
            yield named.name


def _single(given: list[str]) -> str:
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} say the same thing twice: set one of them")
    return given[0]


def _from_text(name: str, text: str) -> Store:
    try:
        return read_pem(text)
    except StoreError as error:
        raise ConfigError(f"{name} cannot be read: {error}") from None


def _from_file(name: str, stamp: _Stamp, password: str | None, key_password: str | None, *, wants_key: bool) -> Store:
    try:
        with open(stamp.path, "rb") as file:
            content = file.read(MAX_STORE_BYTES)
        return read_store(content, password, key_password, stamp.path, wants_key=wants_key)
    except OSError as error:
        raise ConfigError(f"{name} {stamp.path} cannot be read: {error.strerror}") from None
    except StoreError as error:
        raise ConfigError(f"{name} {stamp.path} cannot be read: {error}") from None
